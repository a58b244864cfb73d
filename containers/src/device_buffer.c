/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/containers/device_buffer.h>

#include <crmm/core/alignment.h>
#include <crmm/device/per_device_resource.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/report.h>
#include <crmm/internal/resource.h>

#include "report_null.h"
#include "require_waitable.h"
#include "take_resource.h"

static const char class_name[] = "device_buffer";

/* ---- helpers ---- */

/* NULL and the explicit handle are one stream. */
static crmm_stream plain(crmm_stream stream)
{
    return stream == CRMM_STREAM_LEGACY ? NULL : stream;
}

/* Order `stream` after the stored one, where it is another. The buffer's device is current. */
static crmm_status order_after_stored(const crmm_device_buffer *buffer, crmm_stream stream)
{
    if (buffer->capacity == 0 || plain(buffer->stream) == plain(stream)) {
        return CRMM_SUCCESS; /* without memory there is nothing to order */
    }
    return crmm_priv_cuda_order_streams(buffer->stream, stream);
}

/* ---- init ---- */

/* Everything but the copy; untouched on failure. The members are gathered one by one: a whole
 * struct that is copied right after its parts were stored makes the processor wait for them. */
static inline crmm_status create(crmm_device_buffer *made, size_t size, size_t alignment,
                                 crmm_stream stream, crmm_resource *mr)
{
    crmm_resource *resource = NULL;
    void *data = NULL;
    int device = 0;

    if (!crmm_is_pow2(alignment)) {
        return FAIL_BYTES(CRMM_ERROR_INVALID_ARGUMENT, 0, size,
                          "device_buffer: alignment %zu is not a power of two", alignment);
    }
    crmm_status status = crmm_priv_cuda_knows_device(&device)
                             ? CRMM_SUCCESS
                             : crmm_priv_cuda_current_device(&device);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = take_resource(class_name, mr, &resource);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = crmm_allocate(resource, stream, size, alignment, &data);
    if (status != CRMM_SUCCESS) {
        crmm_resource_release(&resource);
        return status;
    }
    *made = (crmm_device_buffer){.data = data,
                                 .size = size,
                                 .capacity = size,
                                 .alignment = alignment,
                                 .stream = stream,
                                 .resource = resource,
                                 .device = device};
    return CRMM_SUCCESS;
}

/* A buffer without a copy, for the public function `call`. */
static inline crmm_status init(const char *call, crmm_device_buffer *buffer, size_t size,
                               size_t alignment, crmm_stream stream, crmm_resource *mr)
{
    if (buffer == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: buffer is NULL", call);
    }
    return create(buffer, size, alignment, stream, mr);
}

crmm_status crmm_device_buffer_init(crmm_device_buffer *buffer, size_t size, crmm_stream stream,
                                    crmm_resource *mr)
{
    return init("crmm_device_buffer_init", buffer, size, CRMM_DEVICE_ALIGNMENT, stream, mr);
}

crmm_status crmm_device_buffer_init_aligned(crmm_device_buffer *buffer, size_t size,
                                            size_t alignment, crmm_stream stream, crmm_resource *mr)
{
    return init("crmm_device_buffer_init_aligned", buffer, size, alignment, stream, mr);
}

/* Give back what was made, without touching the record of the failure that is returned. */
static void discard(crmm_device_buffer *made)
{
    const crmm_error failure = *crmm_last_error();

    crmm_device_buffer_finish(made);
    crmm_priv_restore_error(&failure);
}

/* A buffer with a copy, for the public function `call`; `wait` for the stream as well. */
static crmm_status init_copy(const char *call, crmm_device_buffer *buffer, const void *source,
                             size_t size, size_t alignment, crmm_stream stream, crmm_resource *mr,
                             bool wait)
{
    crmm_device_buffer made;

    if (buffer == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: buffer is NULL", call);
    }
    if (source == NULL && size > 0) {
        return FAIL_BYTES(CRMM_ERROR_INVALID_ARGUMENT, 0, size,
                          "%s: source is NULL, with %zu bytes to copy", call, size);
    }
    crmm_status status = wait ? require_waitable(class_name, stream) : CRMM_SUCCESS;
    if (status == CRMM_SUCCESS) {
        status = create(&made, size, alignment, stream, mr);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (size > 0) {
        status = crmm_priv_cuda_copy_async(made.data, source, size, stream);
    }
    if (status == CRMM_SUCCESS && wait) {
        status = crmm_priv_cuda_stream_synchronize(stream);
    }
    if (status != CRMM_SUCCESS) {
        discard(&made);
        return status;
    }
    *buffer = made;
    return CRMM_SUCCESS;
}

crmm_status crmm_device_buffer_init_copy(crmm_device_buffer *buffer, const void *source,
                                         size_t size, crmm_stream stream, crmm_resource *mr)
{
    return init_copy("crmm_device_buffer_init_copy", buffer, source, size, CRMM_DEVICE_ALIGNMENT,
                     stream, mr, false);
}

crmm_status crmm_device_buffer_init_copy_aligned(crmm_device_buffer *buffer, const void *source,
                                                 size_t size, size_t alignment, crmm_stream stream,
                                                 crmm_resource *mr)
{
    return init_copy("crmm_device_buffer_init_copy_aligned", buffer, source, size, alignment,
                     stream, mr, false);
}

crmm_status crmm_device_buffer_init_copy_sync(crmm_device_buffer *buffer, const void *source,
                                              size_t size, crmm_stream stream, crmm_resource *mr)
{
    return init_copy("crmm_device_buffer_init_copy_sync", buffer, source, size,
                     CRMM_DEVICE_ALIGNMENT, stream, mr, true);
}

crmm_status crmm_device_buffer_init_clone(crmm_device_buffer *buffer,
                                          const crmm_device_buffer *other, crmm_stream stream,
                                          crmm_resource *mr)
{
    if (other == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_device_buffer_init_clone: other is NULL");
    }
    return init_copy("crmm_device_buffer_init_clone", buffer, other->data, other->size,
                     crmm_device_buffer_alignment(other), stream, mr, false);
}

/* ---- change ---- */

/* Give an empty buffer the current device and its resource. */
static crmm_status adopt_current(crmm_device_buffer *buffer)
{
    crmm_status status = crmm_priv_cuda_current_device(&buffer->device);
    if (status == CRMM_SUCCESS) {
        status = crmm_get_current_device_resource(&buffer->resource);
    }
    buffer->alignment = crmm_device_buffer_alignment(buffer);
    return status;
}

/* Move the bytes to new memory of `capacity` bytes, at least `size` of them, or to none for 0. The
 * device is current and `stream` comes after the stored one. Unchanged on failure. */
static crmm_status reallocate(crmm_device_buffer *buffer, size_t capacity, crmm_stream stream)
{
    void *data = NULL;

    crmm_status status =
        crmm_allocate(buffer->resource, stream, capacity, buffer->alignment, &data);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (buffer->size > 0) {
        status = crmm_priv_cuda_copy_async(data, buffer->data, buffer->size, stream);
        if (status != CRMM_SUCCESS) {
            const crmm_error failure = *crmm_last_error();
            crmm_deallocate(buffer->resource, stream, data, capacity, buffer->alignment);
            crmm_priv_restore_error(&failure);
            return status;
        }
    }
    crmm_deallocate(buffer->resource, stream, buffer->data, buffer->capacity, buffer->alignment);
    buffer->data = data;
    buffer->capacity = capacity;
    return CRMM_SUCCESS;
}

/* Give the buffer `capacity` bytes and store the stream; unchanged on failure. */
static crmm_status set_capacity(crmm_device_buffer *buffer, size_t capacity, crmm_stream stream)
{
    crmm_device_buffer changed = *buffer;
    int previous = -1;

    if (changed.resource == NULL && capacity != 0) {
        crmm_status status = adopt_current(&changed);
        if (status != CRMM_SUCCESS) {
            return status;
        }
    }
    crmm_status status =
        crmm_priv_cuda_enter_device(changed.resource == NULL ? -1 : changed.device, &previous);
    if (status == CRMM_SUCCESS) {
        status = order_after_stored(buffer, stream);
        if (status == CRMM_SUCCESS && capacity != buffer->capacity) {
            status = reallocate(&changed, capacity, stream);
        }
        crmm_priv_cuda_leave_device(previous);
    }
    if (status != CRMM_SUCCESS) {
        if (buffer->resource == NULL) {
            crmm_resource_release(&changed.resource);
        }
        return status;
    }
    changed.stream = stream;
    *buffer = changed;
    return CRMM_SUCCESS;
}

static crmm_status require_buffer(const char *call, const crmm_device_buffer *buffer)
{
    return buffer != NULL ? CRMM_SUCCESS
                          : FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: buffer is NULL", call);
}

static crmm_status reserve(const char *call, crmm_device_buffer *buffer, size_t new_capacity,
                           crmm_stream stream)
{
    crmm_status status = require_buffer(call, buffer);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    return set_capacity(buffer, new_capacity > buffer->capacity ? new_capacity : buffer->capacity,
                        stream);
}

crmm_status crmm_device_buffer_reserve(crmm_device_buffer *buffer, size_t new_capacity,
                                       crmm_stream stream)
{
    return reserve("crmm_device_buffer_reserve", buffer, new_capacity, stream);
}

crmm_status crmm_device_buffer_resize(crmm_device_buffer *buffer, size_t new_size,
                                      crmm_stream stream)
{
    crmm_status status = reserve("crmm_device_buffer_resize", buffer, new_size, stream);
    if (status == CRMM_SUCCESS) {
        buffer->size = new_size;
    }
    return status;
}

crmm_status crmm_device_buffer_shrink_to_fit(crmm_device_buffer *buffer, crmm_stream stream)
{
    crmm_status status = require_buffer("crmm_device_buffer_shrink_to_fit", buffer);
    return status != CRMM_SUCCESS ? status : set_capacity(buffer, buffer->size, stream);
}

crmm_status crmm_device_buffer_set_stream(crmm_device_buffer *buffer, crmm_stream stream)
{
    crmm_status status = require_buffer("crmm_device_buffer_set_stream", buffer);
    return status != CRMM_SUCCESS ? status : set_capacity(buffer, buffer->capacity, stream);
}

void crmm_device_buffer_set_stream_unordered(crmm_device_buffer *buffer, crmm_stream stream)
{
    if (buffer == NULL) {
        report_null(class_name, "crmm_device_buffer_set_stream_unordered", "buffer");
        return;
    }
    buffer->stream = stream;
}

/* ---- move and finish ---- */

/* Make the buffer's device current where its resource needs that. A CUDA error code, or 0. */
static int enter_for_resource(const crmm_device_buffer *buffer, int *previous)
{
    int current = -1;

    *previous = -1;
    if ((buffer->resource->reserved[CRMM_PRIV_PROPERTIES] & CRMM_PRIV_ANY_DEVICE) != 0 ||
        (crmm_priv_cuda_knows_device(&current) && current == buffer->device)) {
        return 0;
    }
    return crmm_priv_cuda_try_enter_device(buffer->device, previous);
}

/* Give the memory back on the stored stream. */
static void give_back(const crmm_device_buffer *buffer)
{
    int previous = -1;

    if (buffer->capacity == 0 || buffer->resource == NULL) {
        return;
    }
    int code = enter_for_resource(buffer, &previous);
    if (code != 0) {
        crmm_priv_report(
            (crmm_misuse){.kind = crmm_priv_cuda_is_forked(code) ? CRMM_MISUSE_FORKED
                                                                 : CRMM_MISUSE_CUDA,
                          .native_code = code,
                          .resource_name = class_name,
                          .ptr = buffer->data,
                          .bytes = buffer->capacity,
                          .alignment = buffer->alignment},
            "device_buffer: %p (%zu bytes) is not given back: device %d cannot be made current: "
            "%s (%s)",
            buffer->data, buffer->capacity, buffer->device, crmm_priv_cuda_error_name(code),
            crmm_priv_cuda_error_text(code));
        return;
    }
    crmm_deallocate(buffer->resource, buffer->stream, buffer->data, buffer->capacity,
                    buffer->alignment);
    crmm_priv_cuda_leave_device(previous);
}

void crmm_device_buffer_finish(crmm_device_buffer *buffer)
{
    if (buffer == NULL) {
        return;
    }
    give_back(buffer);
    crmm_resource_release(&buffer->resource);
    *buffer = (crmm_device_buffer){0};
}

void crmm_device_buffer_move(crmm_device_buffer *destination, crmm_device_buffer *source)
{
    if (destination == NULL || source == NULL) {
        report_null(class_name, "crmm_device_buffer_move",
                    destination == NULL ? "destination" : "source");
        return;
    }
    if (destination == source) {
        return;
    }
    crmm_device_buffer_finish(destination);
    *destination = *source;
    *source = (crmm_device_buffer){0};
}

/* ---- accessors ---- */

/* The buffer, or an empty one in place of NULL. */
static const crmm_device_buffer *look_at(const char *call, const crmm_device_buffer *buffer)
{
    static const crmm_device_buffer empty;

    if (buffer == NULL) {
        report_null(class_name, call, "buffer");
        return &empty;
    }
    return buffer;
}

void *crmm_device_buffer_data(const crmm_device_buffer *buffer)
{
    return look_at("crmm_device_buffer_data", buffer)->data;
}

size_t crmm_device_buffer_size(const crmm_device_buffer *buffer)
{
    return look_at("crmm_device_buffer_size", buffer)->size;
}

int64_t crmm_device_buffer_ssize(const crmm_device_buffer *buffer)
{
    /* A size is at most PTRDIFF_MAX: no allocation is larger. */
    return (int64_t)look_at("crmm_device_buffer_ssize", buffer)->size;
}

size_t crmm_device_buffer_capacity(const crmm_device_buffer *buffer)
{
    return look_at("crmm_device_buffer_capacity", buffer)->capacity;
}

size_t crmm_device_buffer_alignment(const crmm_device_buffer *buffer)
{
    size_t alignment = look_at("crmm_device_buffer_alignment", buffer)->alignment;
    return alignment != 0 ? alignment : CRMM_DEVICE_ALIGNMENT;
}

bool crmm_device_buffer_is_empty(const crmm_device_buffer *buffer)
{
    return look_at("crmm_device_buffer_is_empty", buffer)->size == 0;
}

crmm_stream crmm_device_buffer_stream(const crmm_device_buffer *buffer)
{
    return look_at("crmm_device_buffer_stream", buffer)->stream;
}

crmm_device_async_resource_ref crmm_device_buffer_memory_resource(const crmm_device_buffer *buffer)
{
    crmm_device_async_resource_ref ref = {
        look_at("crmm_device_buffer_memory_resource", buffer)->resource};
    return ref;
}
