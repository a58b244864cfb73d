# SPDX-License-Identifier: Apache-2.0
"""The mistakes that mutants.py makes: each a text that is once in a file, and what replaces it."""
from collections import namedtuple

Mutant = namedtuple('Mutant', 'name file text replacement pool program',
                    defaults=['pool', 'model'])

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
           '''    if (sim_is_capturing(found)) {
        return CRMM_PRIV_CAPTURING;
    }
''', '', 'toy'),
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

MUTANTS = CHECKER
