/* SPDX-License-Identifier: Apache-2.0 */
#include "rmm_shape.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <crmm/core/alignment.h>
#include <crmm/interfaces/resource.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/floor_event.h>

#include "rmm_free_list.h"

enum { STREAM_SLOTS = 1024, MOST_STREAMS = STREAM_SLOTS / 2, LEGACY_ID = 1 };

/* A stream by its id, with the one event that every free on it records. */
typedef struct stream_slot {
    uint64_t id;
    crmm_priv_event event; /* NULL: an empty slot */
} stream_slot;

/* The free blocks of a stream, by its event. */
typedef struct list_entry {
    crmm_priv_event event;
    rmm_free_list *list;
} list_entry;

typedef struct rmm_shape {
    struct crmm_resource base;
    crmm_resource *upstream;
    pthread_mutex_t mutex; /* held by every call from begin to end */
    size_t most_bytes;
    size_t held, peak_held;
    rmm_shape_calls calls;
    stream_slot streams[STREAM_SLOTS]; /* open addressing */
    size_t stream_count;
    list_entry lists[MOST_STREAMS]; /* in ascending order of events */
    size_t list_count;
    rmm_block *chunks; /* what upstream gave, in ascending order of addresses */
    size_t chunk_count, chunk_capacity;
} rmm_shape;

static crmm_status no_memory(void)
{
    return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 0, "rmm_shape: no host memory");
}

/* ---- events ---- */

static crmm_status identify_failed(int code)
{
    if (code == CRMM_PRIV_CAPTURING) {
        return crmm_set_last_error(CRMM_ERROR_UNSUPPORTED, 0, "rmm_shape: a stream is captured");
    }
    return crmm_priv_cuda_check("cuStreamGetId", code);
}

static crmm_status add_event(rmm_shape *own, crmm_stream stream, stream_slot *slot, uint64_t id)
{
    if (own->stream_count == MOST_STREAMS) {
        return crmm_set_last_error(CRMM_ERROR_UNSUPPORTED, 0, "rmm_shape: too many streams");
    }
    int code = crmm_priv_event_create(stream, &slot->event);
    if (code != 0) {
        return crmm_priv_cuda_check("cudaEventCreateWithFlags", code);
    }
    slot->id = id;
    own->stream_count++;
    return CRMM_SUCCESS;
}

static inline crmm_status find_event(rmm_shape *own, crmm_stream stream, crmm_priv_event *event)
{
    uint64_t id = LEGACY_ID;

    if (stream != NULL && stream != CRMM_STREAM_LEGACY) {
        id = crmm_priv_stream_id_of(stream);
        if (!crmm_priv_is_stream_id(id)) {
            return identify_failed(crmm_priv_stream_id_code(id));
        }
    }
    size_t at = (size_t)(id ^ id >> 10) % STREAM_SLOTS;
    while (own->streams[at].event != NULL && own->streams[at].id != id) {
        at = (at + 1) % STREAM_SLOTS;
    }
    if (own->streams[at].event == NULL) {
        crmm_status status = add_event(own, stream, &own->streams[at], id);
        if (status != CRMM_SUCCESS) {
            return status;
        }
    }
    *event = own->streams[at].event;
    return CRMM_SUCCESS;
}

static crmm_status wait_for(rmm_shape *own, crmm_stream stream, crmm_priv_event event)
{
    own->calls.waits++;
    return crmm_priv_cuda_check("cuStreamWaitEvent", crmm_priv_stream_wait_event(stream, event));
}

/* ---- lists ---- */

/* Where an event's entry is, or belongs. */
static inline size_t list_position(const rmm_shape *own, crmm_priv_event event)
{
    size_t low = 0;
    size_t high = own->list_count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (own->lists[middle].event == event) {
            return middle;
        }
        if ((uintptr_t)own->lists[middle].event < (uintptr_t)event) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static rmm_free_list *add_list(rmm_shape *own, size_t at, crmm_priv_event event)
{
    rmm_free_list *list = rmm_free_list_create();

    if (list != NULL) {
        memmove(&own->lists[at + 1], &own->lists[at],
                (own->list_count - at) * sizeof(own->lists[0]));
        own->lists[at] = (list_entry){.event = event, .list = list};
        own->list_count++;
    }
    return list;
}

/* An event's list, made where there is none; NULL: no host memory. */
static inline rmm_free_list *list_of(rmm_shape *own, crmm_priv_event event)
{
    size_t at = list_position(own, event);
    bool is_there = at < own->list_count && own->lists[at].event == event;

    return is_there ? own->lists[at].list : add_list(own, at, event);
}

static void drop_list(rmm_shape *own, size_t at)
{
    rmm_free_list_destroy(own->lists[at].list);
    own->list_count--;
    memmove(&own->lists[at], &own->lists[at + 1], (own->list_count - at) * sizeof(own->lists[0]));
}

/* ---- what upstream gave ---- */

static size_t chunk_position(const rmm_shape *own, const char *ptr)
{
    size_t low = 0;
    size_t high = own->chunk_count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (own->chunks[middle].ptr < ptr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool begins_chunk(const rmm_shape *own, const char *ptr)
{
    size_t at = chunk_position(own, ptr);
    return at < own->chunk_count && own->chunks[at].ptr == ptr;
}

static crmm_status make_chunk_room(rmm_shape *own)
{
    if (own->chunk_count == own->chunk_capacity) {
        size_t capacity = own->chunk_capacity * 2 + 16;
        rmm_block *grown = realloc(own->chunks, capacity * sizeof(*grown));
        if (grown == NULL) {
            return no_memory();
        }
        own->chunks = grown;
        own->chunk_capacity = capacity;
    }
    return CRMM_SUCCESS;
}

static crmm_status take_chunk(rmm_shape *own, crmm_stream stream, size_t bytes, rmm_block *out)
{
    void *ptr = NULL;

    crmm_status status = make_chunk_room(own);
    if (status == CRMM_SUCCESS) {
        status = crmm_allocate(own->upstream, stream, bytes, CRMM_DEVICE_ALIGNMENT, &ptr);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    *out = (rmm_block){.ptr = ptr, .bytes = bytes, .is_head = true};
    size_t at = chunk_position(own, ptr);
    memmove(&own->chunks[at + 1], &own->chunks[at],
            (own->chunk_count - at) * sizeof(own->chunks[0]));
    own->chunks[at] = *out;
    own->chunk_count++;
    own->held += bytes;
    own->peak_held = own->held > own->peak_held ? own->held : own->peak_held;
    return CRMM_SUCCESS;
}

/* As much as there is already, or half of what the limit leaves; half of that and so on where
 * upstream has not got it. */
static crmm_status grow(rmm_shape *own, crmm_stream stream, size_t bytes, rmm_block *out)
{
    size_t wanted = own->held;

    if (own->most_bytes != 0) {
        size_t rest = own->most_bytes - own->held;
        if (bytes > rest) {
            return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 0,
                                       "rmm_shape: the maximum size is reached");
        }
        wanted = crmm_align_up(rest / 2, CRMM_DEVICE_ALIGNMENT);
    }
    wanted = wanted > bytes ? wanted : bytes;
    for (;;) {
        crmm_status status = take_chunk(own, stream, wanted, out);
        if (status == CRMM_SUCCESS || wanted == bytes) {
            return status;
        }
        wanted = crmm_align_up(wanted / 2, CRMM_DEVICE_ALIGNMENT);
        wanted = wanted > bytes ? wanted : bytes;
    }
}

/* ---- allocation ---- */

/* Cut a block, whose rest goes into a list. */
static void *cut(rmm_free_list *list, rmm_block block, size_t bytes)
{
    if (block.bytes > bytes) {
        rmm_free_list_insert(list,
                             (rmm_block){.ptr = block.ptr + bytes, .bytes = block.bytes - bytes});
    }
    return block.ptr;
}

/* A block of another stream, whose rest stays with that stream. `*ptr` is NULL where none has one.
 */
static crmm_status steal(rmm_shape *own, crmm_stream stream, crmm_priv_event event, size_t bytes,
                         void **ptr)
{
    for (size_t i = 0; i < own->list_count; i++) {
        const list_entry *other = &own->lists[i];
        if (other->event == event) {
            continue;
        }
        rmm_block block = rmm_free_list_take(other->list, bytes);
        if (block.ptr != NULL) {
            crmm_status status = wait_for(own, stream, other->event);
            if (status != CRMM_SUCCESS) {
                rmm_free_list_insert(other->list, block);
                return status;
            }
            *ptr = cut(other->list, block, bytes);
            return CRMM_SUCCESS;
        }
    }
    return CRMM_SUCCESS;
}

/* Make other streams' blocks this one's, stream by stream, until one of them fits. */
static crmm_status merge(rmm_shape *own, crmm_stream stream, crmm_priv_event event, size_t bytes,
                         rmm_free_list *list, void **ptr)
{
    size_t i = 0;

    while (i < own->list_count) {
        if (own->lists[i].event == event) {
            i++;
            continue;
        }
        crmm_status status = wait_for(own, stream, own->lists[i].event);
        if (status != CRMM_SUCCESS) {
            return status;
        }
        rmm_free_list_merge(list, own->lists[i].list);
        drop_list(own, i);
        rmm_block block = rmm_free_list_take(list, bytes);
        if (block.ptr != NULL) {
            *ptr = cut(list, block, bytes);
            return CRMM_SUCCESS;
        }
    }
    return CRMM_SUCCESS;
}

static crmm_status find_block(rmm_shape *own, crmm_stream stream, crmm_priv_event event,
                              size_t bytes, void **ptr)
{
    rmm_free_list *list = list_of(own, event);

    if (list == NULL) {
        return no_memory();
    }
    rmm_block block = rmm_free_list_take(list, bytes);
    if (block.ptr == NULL) {
        crmm_status status = steal(own, stream, event, bytes, ptr);
        if (status == CRMM_SUCCESS && *ptr == NULL) {
            status = merge(own, stream, event, bytes, list, ptr);
        }
        if (status != CRMM_SUCCESS || *ptr != NULL) {
            return status;
        }
        status = grow(own, stream, bytes, &block);
        if (status != CRMM_SUCCESS) {
            return status;
        }
    }
    *ptr = cut(list, block, bytes);
    return CRMM_SUCCESS;
}

static crmm_status shape_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                  size_t alignment, void **ptr)
{
    rmm_shape *own = (rmm_shape *)resource;
    crmm_priv_event event = NULL;
    size_t extent = crmm_align_up(bytes, CRMM_DEVICE_ALIGNMENT);

    if (alignment > CRMM_DEVICE_ALIGNMENT) {
        return crmm_set_last_error(CRMM_ERROR_UNSUPPORTED, 0, "rmm_shape: alignment");
    }
    (void)pthread_mutex_lock(&own->mutex);
    crmm_status status = find_event(own, stream, &event);
    if (status == CRMM_SUCCESS) {
        status = find_block(own, stream, event, extent, ptr);
    }
    (void)pthread_mutex_unlock(&own->mutex);
    return status;
}

static void shape_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                             size_t alignment)
{
    rmm_shape *own = (rmm_shape *)resource;
    crmm_priv_event event = NULL;

    (void)alignment;
    (void)pthread_mutex_lock(&own->mutex);
    if (find_event(own, stream, &event) == CRMM_SUCCESS) {
        rmm_block block = {.ptr = ptr,
                           .bytes = crmm_align_up(bytes, CRMM_DEVICE_ALIGNMENT),
                           .is_head = begins_chunk(own, ptr)};
        rmm_free_list *list = list_of(own, event);
        (void)crmm_priv_event_record(event, stream);
        own->calls.records++;
        if (list != NULL) {
            rmm_free_list_insert(list, block);
        }
    }
    (void)pthread_mutex_unlock(&own->mutex);
}

static crmm_status shape_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                       void **ptr)
{
    crmm_status status = shape_allocate(resource, NULL, bytes, alignment, ptr);

    return status != CRMM_SUCCESS ? status : crmm_priv_cuda_stream_synchronize(NULL);
}

static void shape_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                  size_t alignment)
{
    shape_deallocate(resource, NULL, ptr, bytes, alignment);
}

/* ---- the class ---- */

static void shape_destroy(crmm_resource *resource)
{
    rmm_shape *own = (rmm_shape *)resource;

    for (size_t i = 0; i < STREAM_SLOTS; i++) {
        if (own->streams[i].event != NULL) {
            (void)crmm_priv_event_synchronize(own->streams[i].event);
            (void)crmm_priv_event_destroy(own->streams[i].event);
        }
    }
    while (own->list_count > 0) {
        drop_list(own, own->list_count - 1);
    }
    for (size_t i = 0; i < own->chunk_count; i++) {
        crmm_deallocate_sync(own->upstream, own->chunks[i].ptr, own->chunks[i].bytes,
                             CRMM_DEVICE_ALIGNMENT);
    }
    free(own->chunks);
    (void)pthread_mutex_destroy(&own->mutex);
    crmm_resource_release(&own->upstream);
    crmm_resource_storage_free(resource);
}

static crmm_resource *shape_upstream(const crmm_resource *resource)
{
    return ((const rmm_shape *)resource)->upstream;
}

/* It counts only what it has taken, as RMM does. */
static crmm_status shape_info(const crmm_resource *resource, crmm_memory_info *info)
{
    rmm_shape *own = (rmm_shape *)resource;

    (void)pthread_mutex_lock(&own->mutex);
    info->held = own->held;
    info->peak_held = own->peak_held;
    (void)pthread_mutex_unlock(&own->mutex);
    return CRMM_SUCCESS;
}

static const crmm_resource_ops shape_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = shape_allocate_sync,
    .deallocate_sync = shape_deallocate_sync,
    .destroy = shape_destroy,
    .allocate = shape_allocate,
    .deallocate = shape_deallocate,
    .upstream = shape_upstream,
    .info = shape_info,
};

/* The initial memory is the legacy stream's. */
static crmm_status take_initial(rmm_shape *own, size_t bytes)
{
    crmm_priv_event event = NULL;
    rmm_block block;

    crmm_status status = find_event(own, CRMM_STREAM_LEGACY, &event);
    if (status == CRMM_SUCCESS) {
        status = take_chunk(own, CRMM_STREAM_LEGACY, bytes, &block);
    }
    if (status == CRMM_SUCCESS) {
        rmm_free_list *list = list_of(own, event);
        if (list == NULL) {
            return no_memory();
        }
        rmm_free_list_insert(list, block);
    }
    return status;
}

crmm_status rmm_shape_create(crmm_resource *upstream, size_t initial_bytes, size_t most_bytes,
                             crmm_resource **out)
{
    rmm_shape *created = crmm_resource_storage_allocate(sizeof(*created));

    if (created == NULL) {
        return no_memory();
    }
    crmm_resource_init(&created->base, &shape_ops, "rmm_shape",
                       CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    crmm_resource_bind_device(&created->base, crmm_resource_device(upstream));
    (void)pthread_mutex_init(&created->mutex, NULL);
    created->upstream = crmm_resource_retain(upstream);
    created->most_bytes = most_bytes;
    crmm_status status = initial_bytes > 0 ? take_initial(created, initial_bytes) : CRMM_SUCCESS;
    if (status != CRMM_SUCCESS) {
        shape_destroy(&created->base);
        return status;
    }
    *out = &created->base;
    return CRMM_SUCCESS;
}

rmm_shape_calls rmm_shape_get_calls(crmm_resource *resource)
{
    rmm_shape *own = (rmm_shape *)resource;

    (void)pthread_mutex_lock(&own->mutex);
    rmm_shape_calls calls = own->calls;
    (void)pthread_mutex_unlock(&own->mutex);
    return calls;
}
