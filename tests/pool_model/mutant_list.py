# SPDX-License-Identifier: Apache-2.0
"""The mistakes that mutants.py makes: each a text that is once in a file, and what replaces it."""
from collections import namedtuple

# `configuration`: the only one to run, for a mistake that few seeds notice.
Mutant = namedtuple('Mutant', 'name file text replacement pool program configuration',
                    defaults=['pool', 'model', ''])

FLOOR = 'tests/pool_model/simulated_floor.c'
UPSTREAM = 'tests/pool_model/simulated_upstream.c'
TOY = 'tests/pool_model/toy_pool.c'

# A right pool on a device that does not do as it is told: whether the checker has eyes.
CHECKER = [
    Mutant('floor: every query is answered yes', FLOOR,
           '''    if (!sim_is_complete(&event->order)) {
        return CRMM_PRIV_NOT_READY;
    }
    sim_observe(&event->order);
''', '', 'toy'),
    Mutant('floor: no stream waits', FLOOR,
           'sim_stream_follow(stream, &event->order);', '', 'toy'),
    Mutant('floor: events mark nothing', FLOOR,
           'event->recorded = true;', 'event->recorded = false;', 'toy'),
    Mutant('floor: events mark one piece less', FLOOR,
           'event->order = on->order;',
           'event->order = on->order;\n        event->order.at[on->clock] -= 1;', 'toy'),
    Mutant('floor: the host does not wait', FLOOR,
           '''        sim_counts_now.synchronizes++;
        if (event->recorded) {''',
           '''        sim_counts_now.synchronizes++;
        if (!event->recorded) {''', 'toy'),
    Mutant('floor: the device is not waited for', FLOOR, 'sim_observe_all();', '', 'toy'),
    Mutant('floor: captures go unnoticed', FLOOR,
           'return sim_is_capturing(found) ? crmm_priv_no_stream_id(CRMM_PRIV_CAPTURING) : found->id;',
           'return found->id;', 'toy'),
    Mutant('upstream: memory is given twice', UPSTREAM,
           '!chunk->is_live && chunk->bytes == bytes', 'chunk->bytes == bytes', 'toy'),
    Mutant('toy: a block is left out of the figures', TOY,
           'pool->info.allocations--;', '', 'toy'),
    Mutant('toy: a chunk is not given back', TOY,
           'for (size_t i = 0; i < pool->chunk_count; i++) {',
           'for (size_t i = 1; i < pool->chunk_count; i++) {', 'toy'),
    Mutant('toy: events are not given back', TOY,
           '(void)crmm_priv_event_destroy(block->event);', '', 'toy'),
    Mutant('toy: an event is used after its end', TOY,
           '''    *link = block->next;
    forget_event(block);
''',
           '''    *link = block->next;
    crmm_priv_event gone = block->event;
    forget_event(block);
    if (gone != NULL) {
        (void)crmm_priv_event_query(gone);
    }
''', 'toy'),
    Mutant('toy: the maximum is not kept', TOY,
           'size > pool->maximum - pool->info.held', 'pool->info.held > pool->maximum', 'toy'),
    Mutant('toy: blocks taken over are not marked', TOY,
           '''            forget_event(older);
            older->stream = stream;
            older->handle = handle;
            mark(older);
''',
           '''            forget_event(older);
            older->stream = stream;
            older->handle = handle;
''', 'toy'),
    Mutant('toy: without its lock', TOY,
           '''    (void)pthread_mutex_lock(&pool->mutex);
    char *found''', '    char *found', 'toy', 'threads'),
]

SOURCES = 'device/src/pool/'
STREAMS = SOURCES + 'streams.c'
SEARCH = SOURCES + 'search.h'
GATHER = SOURCES + 'gather.c'
SETTLE = SOURCES + 'settle.c'
WAIT = SOURCES + 'wait.c'
EXTENTS = SOURCES + 'extents.c'
EXTENTS_SEARCH = SOURCES + 'extents_search.c'
EXTENTS_ROWS = SOURCES + 'extents_rows.c'
CACHE = SOURCES + 'cache.c'
DEPOT = SOURCES + 'depot.c'
PARK = SOURCES + 'park.c'
CACHE_H = SOURCES + 'cache.h'
POOL_H = SOURCES + 'pool.h'
FENCES = SOURCES + 'fences.c'
REGISTRY = SOURCES + 'registry.c'
REQUEST = SOURCES + 'request.c'
MEMORY = SOURCES + 'memory.c'
PAGES = SOURCES + 'page_memory.c'
CHUNKS = SOURCES + 'chunk_memory.c'
MOVES = SOURCES + 'moves.c'
LOOK = SOURCES + 'look.c'
SNAPSHOT = SOURCES + 'snapshot.c'
STREAM_ID = SOURCES + 'stream_id.h'
RESOURCE = 'device/src/pool_memory_resource.c'

# The protocol of the pool. What is left out since it does no harm:
# - A hole that is filled is not marked busy: only the one thread that grows looks at holes.
# - A stream waits for a fence that is too old, or for the lower of two epochs: it has seen no more
#   than it waited for, so it finds nothing, and looks again.
# - What is given back is marked with the epoch of the moment before it waits for a heap's lock: the
#   work before it was queued then.
# - Another fence than the newest is given up for a new one: the new one covers what it did.
# Each step that keeps the order is left out by one of them:
# - the wait before another stream's block is taken: "a wait is noted and not made";
# - completion, and not only a fence, before memory is anybody's: "what is fenced is complete";
# - the wait before neighbours are joined: "neighbours are joined before the wait";
# - a stamp of its own for what comes after a wait: "large blocks are marked an epoch early", "a cache
#   is emptied an epoch early";
# - that of blocks which are kept at hand: "a cache is filled with what is marked as old", "blocks join
#   an older magazine";
# - memory that an upstream gives in a stream's order: "new chunks come in a stream's order";
# - that a stream is gone and its handle another one's: "streams are known by their handles", "an entry
#   with memory is used again".
POOL = [
    Mutant('pool: a wait is noted and not made', STREAMS,
           'code = crmm_priv_stream_wait_event(handle, fence->event);', 'code = 0;'),
    Mutant('pool: more is noted than was waited for', STREAMS,
           'raise_to(&seen[stream->index], covered);', 'raise_to(&seen[stream->index], covered + 1);'),
    Mutant('pool: a fence leaves its epoch open', STREAMS,
           '*epoch = __atomic_fetch_add(&stream->epoch, 1, __ATOMIC_ACQ_REL);',
           '*epoch = __atomic_load_n(&stream->epoch, __ATOMIC_ACQUIRE);'),
    Mutant('pool: a fence covers the epoch that it opens', STREAMS,
           '*epoch = __atomic_fetch_add(&stream->epoch, 1, __ATOMIC_ACQ_REL);',
           '*epoch = __atomic_add_fetch(&stream->epoch, 1, __ATOMIC_ACQ_REL);'),
    Mutant('pool: a fence is recorded before its epoch ends', STREAMS,
           '''        *epoch = __atomic_fetch_add(&stream->epoch, 1, __ATOMIC_ACQ_REL);
        code = crmm_priv_event_record(fence->event, handle);
''',
           '''        code = crmm_priv_event_record(fence->event, handle);
        *epoch = __atomic_fetch_add(&stream->epoch, 1, __ATOMIC_ACQ_REL);
''', program='threads'),
    Mutant('pool: a query that fails says complete', STREAMS,
           'bool complete = crmm_priv_event_query(fence->event) == 0;',
           'bool complete = crmm_priv_event_query(fence->event) != CRMM_PRIV_NOT_READY;'),
    Mutant('pool: a fence that fails counts', STREAMS,
           '            fence->state = CRMM_PRIV_FENCE_IDLE;', '            fence->state = CRMM_PRIV_FENCE_RECORDED;'),
    Mutant('pool: the latest fence is given up for a spare', STREAMS,
           'find_free(stream) == NULL ? previous_to(stream, latest) : NULL;',
           '''find_free(stream) == NULL ? &stream->fences[latest - stream->fences] : NULL;
    (void)previous_to;'''),
    Mutant('pool: the legacy stream is fenced in a capture', STREAMS,
           'return stream->is_default != 0 && crmm_priv_stream_check_capture(handle) != 0;',
           '''(void)handle;
    return stream->users == UINT32_MAX;'''),
    Mutant('pool: the time of an entry used again restarts', STREAMS,
           '__atomic_store_n(&stream->epoch, epoch + 1, __ATOMIC_RELEASE);',
           '__atomic_store_n(&stream->epoch, 1, __ATOMIC_RELEASE);'),
    Mutant('pool: an entry used again has seen others', STREAMS,
           '__atomic_store_n(&stream->seen[i], 0, __ATOMIC_RELEASE);',
           '__atomic_store_n(&stream->seen[i], stream->seen[i], __ATOMIC_RELEASE);',
           configuration='off-chunks'),
    Mutant('pool: events go while all pools are locked', STREAMS,
           '        stream->fences[i] = (crmm_priv_fence){.event = event, .is_old = event != NULL};',
           '''        if (event != NULL) {
            (void)crmm_priv_event_destroy(event);
        }
        stream->fences[i] = (crmm_priv_fence){0};'''),
    Mutant('pool: a heap is locked while its stream is fenced', SETTLE,
           '''    crmm_priv_pool_stream_poll(&pool->streams, stream);
    crmm_priv_pool_heap_lock(heap);
    uint32_t count''',
           '''    crmm_priv_pool_heap_lock(heap);
    crmm_priv_pool_stream_poll(&pool->streams, stream);
    uint32_t count'''),
    Mutant('pool: an entry with memory is used again', REGISTRY,
           'idle = (set == NULL || set->count == 0) && heap->extents.leaving == 0;',
           'idle = set != NULL || heap->extents.leaving == 0;'),
    Mutant('pool: streams are known by their handles', STREAM_ID,
           '''    return __builtin_expect(crmm_priv_pool_is_created(stream), 1)
               ? crmm_priv_stream_id_of(stream)
               : crmm_priv_pool_default_id(pool, stream);
''',
           '''    uint64_t id = crmm_priv_pool_is_created(stream) ? crmm_priv_stream_id_of(stream) : 0;
    if (id != 0) {
        return crmm_priv_is_stream_id(id) ? (uint64_t)(uintptr_t)stream : id;
    }
    return crmm_priv_pool_default_id(pool, stream);
'''),
    Mutant('pool: a fence is recorded on a later stream', FENCES,
           'if (cache->stream != NULL && is_behind(cache, handle)) {',
           '(void)is_behind;\n    if (cache->stream != NULL) {'),
    Mutant('pool: what is fenced is complete', SETTLE,
           'crmm_priv_pool_stream_done(stream), most);',
           '__atomic_load_n(&stream->fenced, __ATOMIC_ACQUIRE), most);'),
    Mutant('pool: neighbours are joined before the wait', GATHER,
           'if (any && found.waits.count == 0) {', 'if (any) {'),
    Mutant('pool: who waits for all leaves the epochs open', WAIT,
           '''        closed[i] = __atomic_fetch_add(&crmm_priv_pool_stream_of(&pool->streams, i)->epoch, 1,
                                       __ATOMIC_ACQ_REL);
''',
           '''        closed[i] = crmm_priv_pool_stream_epoch(crmm_priv_pool_stream_of(&pool->streams, i));
'''),
    Mutant('pool: who waits for all ends the epochs late', WAIT,
           'crmm_priv_pool_stream_of(&pool->streams, i), closed[i]);',
           'crmm_priv_pool_stream_of(&pool->streams, i), closed[i] + 1);'),
    Mutant('pool: sync calls take what is pending', SEARCH,
           '''    sources[count++] =
        (crmm_priv_extent_source){.owner = CRMM_PRIV_POOL_CLEAN, .epoch = UINT64_MAX};
    return count;
''',
           '''    sources[count++] =
        (crmm_priv_extent_source){.owner = CRMM_PRIV_POOL_CLEAN, .epoch = UINT64_MAX};
    if (request->stream == NULL) {
        sources[count++] = (crmm_priv_extent_source){.owner = CRMM_PRIV_POOL_FIRST_STREAM,
                                                     .epoch = UINT64_MAX};
    }
    return count;
'''),
    Mutant('pool: seen once is seen for ever', REQUEST,
           '''           from.epoch <=
               crmm_priv_pool_stream_seen(''',
           '''           0 <
               crmm_priv_pool_stream_seen('''),
    Mutant('pool: a source\'s epoch is not looked at', EXTENTS_SEARCH,
           'if (is_better(extent, best) && extent->epoch <= epoch && serves(extent, what)) {',
           'if (is_better(extent, best) && epoch > 0 && serves(extent, what)) {'),
    Mutant('pool: nor by a tight pool over chunks', EXTENTS_SEARCH,
           'if (extent->size >= size && extent->epoch <= sources[i].epoch) {',
           'if (extent->size >= size) {'),
    Mutant('pool: a row is of anybody\'s memory', EXTENTS_ROWS,
           'if (extent->owner == search->sources[i].owner) {',
           'if (extent->owner == search->sources[i].owner || i == 0) {'),
    Mutant('pool: the epochs of a row are not looked at', EXTENTS_ROWS,
           'return extent->epoch <= search->sources[i].epoch;', 'return true;'),
    Mutant('pool: nor where it is looked for', EXTENTS_ROWS,
           'if (extent->size >= search->least && extent->epoch <= epoch) {',
           'if (extent->size >= search->least && epoch > 0) {'),
    Mutant('pool: a row is taken that is too short', EXTENTS_ROWS,
           'return size >= search->size;', 'return true;'),
    Mutant('pool: neighbours of two owners are joined', EXTENTS,
           'return extent->state == CRMM_PRIV_POOL_FREE && extent->owner == owner;',
           'return extent->state == CRMM_PRIV_POOL_FREE && owner < UINT16_MAX;'),
    Mutant('pool: what takes a block in keeps its epoch', EXTENTS,
           '    crmm_priv_extents_renew_free(extents, into, epoch);\n', ''),
    Mutant('pool: what is joined keeps the lower epoch', EXTENTS,
           '''epoch = get(extents, after)->epoch > epoch ? get(extents, after)->epoch : epoch;
        crmm_priv_extents_unmake_free''',
           '''epoch = get(extents, after)->epoch < epoch ? get(extents, after)->epoch : epoch;
        crmm_priv_extents_unmake_free'''),
    Mutant('pool: the rest of a run is its first one\'s', EXTENTS,
           '''        owner = get(extents, next)->owner;
        epoch = get(extents, next)->epoch;
''', '', configuration='default-vmm'),
    Mutant('pool: large blocks are marked an epoch early', RESOURCE,
           'release_to(pool, heap, index, crmm_priv_pool_cache_owner(cache), epoch);',
           'release_to(pool, heap, index, crmm_priv_pool_cache_owner(cache), epoch - (epoch > 1));'),
    Mutant('pool: a cache is emptied an epoch early', CACHE,
           'return __atomic_load_n(&cache->left, __ATOMIC_RELAXED) == cache->allowance',
           '''return cache->epoch != 0 && __atomic_load_n(&cache->left, __ATOMIC_RELAXED) >=
                                    cache->allowance / 2'''),
    Mutant('pool: a cache is filled with what is marked as old', CACHE,
           '''    if (cache->stream != NULL) {
        cache->epoch = crmm_priv_pool_stream_epoch(cache->stream);
    }
''',
           '''    cache->epoch = 1;
''', configuration='default-vmm'),
    Mutant('pool: magazines are anybody\'s', DEPOT,
           'if (!crmm_priv_pool_may_use_from(req, from) && !is_complete(req, from)) {',
           'if (req->pool->is_tight) {',
           configuration='passing'),
    Mutant('pool: a fenced magazine is complete', DEPOT,
           'from.epoch <= crmm_priv_pool_stream_done(stream_of(req, from));',
           'crmm_priv_pool_stream_is_fenced(stream_of(req, from), from.epoch);',
           configuration='passing'),
    Mutant('pool: blocks join an older magazine', DEPOT,
           'if (at->owner == more->owner && at->epoch == more->epoch &&',
           'if (at->owner == more->owner && at->epoch <= more->epoch &&',
           configuration='passing'),
    Mutant('pool: blocks join another stream\'s magazine', DEPOT,
           'if (at->owner == more->owner && at->epoch == more->epoch &&',
           'if (at->epoch == more->epoch &&',
           configuration='passing'),
    Mutant('pool: a magazine is marked an epoch early', DEPOT,
           '{.epoch = crmm_priv_pool_cache_epoch(cache),',
           '{.epoch = crmm_priv_pool_cache_epoch(cache) - (cache->stream != NULL),',
           configuration='passing'),
    Mutant('pool: magazines stay when memory is short', REGISTRY,
           'flush_caches_of_thread(pool) + crmm_priv_pool_depot_flush(pool);',
           'flush_caches_of_thread(pool);',
           configuration='passing'),
    Mutant('pool: blocks in magazines are told as live', LOOK,
           'sum->at_hand += bytes;', 'sum->at_hand += 0 * bytes;',
           configuration='passing'),
    Mutant('pool: a parked block is live', POOL_H,
           'extent->is_direct = 0;', '', configuration='lone'),
    Mutant('pool: a parked block that is taken is not live', PARK,
           'crmm_priv_pool_hand_out(one->heap, one->index, true);', '', configuration='large'),
    Mutant('pool: a parked block is marked an epoch early', PARK,
           'crmm_priv_pool_cache_now(cache));',
           'crmm_priv_pool_cache_now(cache) - (cache->stream != NULL));', configuration='large'),
    Mutant('pool: what is parked is told as live', CACHE_H,
           '(parked << CRMM_PRIV_POOL_GRANULE_SHIFT)', '0 * parked', configuration='lone'),
    Mutant('pool: new chunks come in a stream\'s order', CHUNKS,
           '''crmm_allocate_sync(crmm_priv_pool_call_upstream(pool), bytes,
                                            CRMM_PRIV_POOL_GRANULE, &base);''',
           '''crmm_allocate(pool->upstream, CRMM_STREAM_LEGACY, bytes,
                                       CRMM_PRIV_POOL_GRANULE, &base);'''),
    Mutant('pool: chunks grow beyond the maximum', CHUNKS,
           '''    bytes = bytes < crmm_priv_pool_room(pool)
                ? bytes
                : crmm_align_down(crmm_priv_pool_room(pool), CRMM_PRIV_POOL_GRANULE);
''', ''),
    Mutant('pool: pages grow beyond the maximum', MEMORY,
           'if (crmm_priv_pool_bytes_of(size) > crmm_priv_pool_room(pool)) {',
           'if (size == 0) {'),
    Mutant('pool: what upstream refused is handed out', PAGES,
           'crmm_priv_pool_settle(heap, claimed, crmm_priv_pool_granules_of(done), CRMM_PRIV_POOL_CLEAN, 0);',
           'crmm_priv_pool_settle(heap, claimed, crmm_priv_pool_granules_of(bytes), CRMM_PRIV_POOL_CLEAN, 0);'),
    Mutant('pool: pending memory goes back upstream', MEMORY,
           'if (extent->state != CRMM_PRIV_POOL_FREE || extent->owner != CRMM_PRIV_POOL_CLEAN) {',
           'if (extent->state != CRMM_PRIV_POOL_FREE) {'),
    Mutant('pool: a chunk that goes is not marked busy', MEMORY,
           'claimed = crmm_priv_extents_carve(extents, best, best_at, best_size, CRMM_PRIV_POOL_BUSY);',
           '''claimed = pool->is_in_place ? crmm_priv_extents_carve(extents, best, best_at, best_size,
                                                              CRMM_PRIV_POOL_BUSY)
                                    : best;''', program='threads'),
    Mutant('pool: moved pages are clean', MEMORY,
           '''        bool owned = request->stream != NULL;
        crmm_priv_pool_settle(heap, claimed, moved, crmm_priv_pool_owner(request),
                              owned ? crmm_priv_pool_stream_epoch(request->stream) : 0);
''',
           '''        crmm_priv_pool_settle(heap, claimed, moved, CRMM_PRIV_POOL_CLEAN, 0);
'''),
    Mutant('pool: moved pages are marked much too early', MEMORY,
           'owned ? crmm_priv_pool_stream_epoch(request->stream) : 0);',
           'owned ? (crmm_priv_pool_stream_epoch(request->stream) + 1) / 2 : 0);'),
    Mutant('pool: a move ends before its work', MOVES,
           '''             extent.epoch <= crmm_priv_pool_stream_done(
                                 crmm_priv_pool_stream_of(&pool->streams, extent.owner)))) {
''',
           '''             crmm_priv_pool_stream_is_fenced(
                 crmm_priv_pool_stream_of(&pool->streams, extent.owner), extent.epoch))) {
'''),
    Mutant('pool: a page moves on before it is there', MOVES,
           'if (pool->open[i].to == at) {', 'if (pool->open[i].from == at) {'),
    Mutant('pool: a page that upstream keeps is forgotten', MOVES,
           '''                leave_again(heap, index);
''',
           '''                (void)leave_again;
''', configuration='faults-vmm'),
    Mutant('pool: memory with two addresses goes back', MOVES,
           'return pool->open_count != 0;', 'return pool->open_count > 64;'),
    Mutant('pool: memory with an address in two heaps goes back', MEMORY,
           'while (crmm_priv_pool_held(pool) > keep && !crmm_priv_pool_is_moving(pool)) {',
           'while (crmm_priv_pool_held(pool) > keep && heap->extents.leaving == 0) {',
           configuration='default-vmm'),
    # What it tells of itself.
    Mutant('pool: blocks at hand are told as live', SNAPSHOT,
           '.is_live = live,', '.is_live = used,'),
    Mutant('pool: what was at hand without a stream is told as pending', SNAPSHOT,
           'block->is_pending = all[i].is_pending;', ''),
    Mutant('pool: what is on streams is told as complete', SNAPSHOT,
           '.is_pending = !live && (used || extent->owner != CRMM_PRIV_POOL_CLEAN)};',
           '.is_pending = !live && used};'),
    Mutant('pool: the chunk of a block is the range', LOOK,
           'chunk->is_in_place ? offset / pool->page * pool->page : 0;',
           'chunk->is_in_place ? offset / chunk->bytes : 0;'),
    Mutant('pool: memory with two addresses is no hole', LOOK,
           'sum->holes += extents->hole_granules + extents->leaving_granules;',
           'sum->holes += extents->hole_granules;'),
    Mutant('pool: a move is not told of', MOVES,
           'crmm_priv_pool_tell(pool, crmm_priv_pool_address_of(to), pool->page, true);', ''),
    Mutant('pool: a page that stays is told to go', PAGES,
           'crmm_priv_pool_tell(pool, base + done, pool->page, true);\n            break;', 'break;'),
]

MUTANTS = CHECKER + POOL
