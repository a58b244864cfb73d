/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/containers/device_uvector.h>

#include <string.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>

#include "report_null.h"
#include "require_waitable.h"

static const char class_name[] = "device_uvector";

_Static_assert(sizeof(crmm_device_uvector) == sizeof(crmm_device_buffer) + sizeof(size_t),
               "the layout is frozen");

/* ---- helpers ---- */

static crmm_status require_vector(const char *call, const crmm_device_uvector *vector)
{
    return vector != NULL ? CRMM_SUCCESS
                          : FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: vector is NULL", call);
}

static crmm_status count_bytes(const char *call, size_t count, size_t element_size, size_t *bytes)
{
    return !__builtin_mul_overflow(count, element_size, bytes)
               ? CRMM_SUCCESS
               : FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                      "%s: %zu elements of %zu bytes are more than size_t can say", call, count,
                      element_size);
}

/* ---- init ---- */

crmm_status crmm_device_uvector_init_aligned(crmm_device_uvector *vector, size_t count,
                                             size_t element_size, size_t alignment,
                                             crmm_stream stream, crmm_resource *mr)
{
    static const char call[] = "crmm_device_uvector_init";
    size_t bytes = 0;

    crmm_status status = require_vector(call, vector);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (element_size == 0) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: element_size is 0", call);
    }
    status = count_bytes(call, count, element_size, &bytes);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = crmm_device_buffer_init_aligned(&vector->buffer, bytes, alignment, stream, mr);
    if (status == CRMM_SUCCESS) {
        vector->element_size = element_size;
    }
    return status;
}

crmm_status crmm_device_uvector_init(crmm_device_uvector *vector, size_t count, size_t element_size,
                                     crmm_stream stream, crmm_resource *mr)
{
    return crmm_device_uvector_init_aligned(vector, count, element_size, CRMM_DEVICE_ALIGNMENT,
                                            stream, mr);
}

crmm_status crmm_device_uvector_init_clone(crmm_device_uvector *vector,
                                           const crmm_device_uvector *other, crmm_stream stream,
                                           crmm_resource *mr)
{
    static const char call[] = "crmm_device_uvector_init_clone";

    crmm_status status = require_vector(call, vector);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (other == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: other is NULL", call);
    }
    status = crmm_device_buffer_init_clone(&vector->buffer, &other->buffer, stream, mr);
    if (status == CRMM_SUCCESS) {
        vector->element_size = other->element_size;
    }
    return status;
}

/* ---- change ---- */

/* Reserve or resize, by the buffer's function, in elements. */
static crmm_status change(const char *call, crmm_device_uvector *vector, size_t count,
                          crmm_stream stream,
                          crmm_status (*change_buffer)(crmm_device_buffer *, size_t, crmm_stream))
{
    size_t bytes = 0;

    crmm_status status = require_vector(call, vector);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (vector->element_size == 0 && count > 0) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: the vector was never initialised, or is finished, so that its element "
                    "size is not known",
                    call);
    }
    status = count_bytes(call, count, vector->element_size, &bytes);
    return status != CRMM_SUCCESS ? status : change_buffer(&vector->buffer, bytes, stream);
}

crmm_status crmm_device_uvector_reserve(crmm_device_uvector *vector, size_t new_capacity,
                                        crmm_stream stream)
{
    return change("crmm_device_uvector_reserve", vector, new_capacity, stream,
                  crmm_device_buffer_reserve);
}

crmm_status crmm_device_uvector_resize(crmm_device_uvector *vector, size_t new_count,
                                       crmm_stream stream)
{
    return change("crmm_device_uvector_resize", vector, new_count, stream,
                  crmm_device_buffer_resize);
}

crmm_status crmm_device_uvector_shrink_to_fit(crmm_device_uvector *vector, crmm_stream stream)
{
    crmm_status status = require_vector("crmm_device_uvector_shrink_to_fit", vector);
    return status != CRMM_SUCCESS ? status
                                  : crmm_device_buffer_shrink_to_fit(&vector->buffer, stream);
}

crmm_status crmm_device_uvector_set_stream(crmm_device_uvector *vector, crmm_stream stream)
{
    crmm_status status = require_vector("crmm_device_uvector_set_stream", vector);
    return status != CRMM_SUCCESS ? status : crmm_device_buffer_set_stream(&vector->buffer, stream);
}

void crmm_device_uvector_set_stream_unordered(crmm_device_uvector *vector, crmm_stream stream)
{
    if (vector == NULL) {
        report_null(class_name, "crmm_device_uvector_set_stream_unordered", "vector");
        return;
    }
    crmm_device_buffer_set_stream_unordered(&vector->buffer, stream);
}

/* ---- move and finish ---- */

void crmm_device_uvector_move(crmm_device_uvector *destination, crmm_device_uvector *source)
{
    if (destination == NULL || source == NULL) {
        report_null(class_name, "crmm_device_uvector_move",
                    destination == NULL ? "destination" : "source");
        return;
    }
    crmm_device_buffer_move(&destination->buffer, &source->buffer);
    destination->element_size = source->element_size;
}

void crmm_device_uvector_release(crmm_device_uvector *vector, crmm_device_buffer *buffer)
{
    if (vector == NULL || buffer == NULL) {
        report_null(class_name, "crmm_device_uvector_release",
                    vector == NULL ? "vector" : "buffer");
        return;
    }
    *buffer = vector->buffer;
    vector->buffer = (crmm_device_buffer){0};
}

void crmm_device_uvector_finish(crmm_device_uvector *vector)
{
    if (vector == NULL) {
        return;
    }
    crmm_device_buffer_finish(&vector->buffer);
    vector->element_size = 0;
}

/* ---- elements ---- */

static void *element_at(const crmm_device_uvector *vector, size_t index)
{
    return (char *)vector->buffer.data + index * vector->element_size;
}

static size_t count_elements(const crmm_device_uvector *vector, size_t bytes)
{
    return vector->element_size != 0 ? bytes / vector->element_size : 0;
}

/* Whether a call may touch an element; `value` is what it reads or writes there. */
static crmm_status require_element(const char *call, const crmm_device_uvector *vector,
                                   size_t index, const void *value)
{
    crmm_status status = require_vector(call, vector);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    size_t size = count_elements(vector, vector->buffer.size);
    if (index >= size) {
        return FAIL(CRMM_ERROR_OUT_OF_RANGE, 0, "%s: index %zu in a vector of %zu elements", call,
                    index, size);
    }
    return value != NULL ? CRMM_SUCCESS
                         : FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: value is NULL", call);
}

/* Copy with the vector's device current; `wait` for the stream as well. */
static crmm_status copy(const crmm_device_uvector *vector, void *destination, const void *source,
                        crmm_stream stream, bool wait)
{
    int previous = -1;

    crmm_status status = crmm_priv_cuda_enter_device(vector->buffer.device, &previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = wait ? require_waitable(class_name, stream) : CRMM_SUCCESS;
    if (status == CRMM_SUCCESS) {
        status = crmm_priv_cuda_copy_async(destination, source, vector->element_size, stream);
    }
    if (status == CRMM_SUCCESS && wait) {
        status = crmm_priv_cuda_stream_synchronize(stream);
    }
    crmm_priv_cuda_leave_device(previous);
    return status;
}

crmm_status crmm_device_uvector_set_element_async(crmm_device_uvector *vector, size_t index,
                                                  const void *value, crmm_stream stream)
{
    crmm_status status =
        require_element("crmm_device_uvector_set_element_async", vector, index, value);
    return status != CRMM_SUCCESS ? status
                                  : copy(vector, element_at(vector, index), value, stream, false);
}

crmm_status crmm_device_uvector_set_element(crmm_device_uvector *vector, size_t index,
                                            const void *value, crmm_stream stream)
{
    crmm_status status = require_element("crmm_device_uvector_set_element", vector, index, value);
    return status != CRMM_SUCCESS ? status
                                  : copy(vector, element_at(vector, index), value, stream, true);
}

crmm_status crmm_device_uvector_set_element_to_zero_async(crmm_device_uvector *vector, size_t index,
                                                          crmm_stream stream)
{
    int previous = -1;

    crmm_status status =
        require_element("crmm_device_uvector_set_element_to_zero_async", vector, index, vector);
    if (status == CRMM_SUCCESS) {
        status = crmm_priv_cuda_enter_device(vector->buffer.device, &previous);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status =
        crmm_priv_cuda_memset_async(element_at(vector, index), 0, vector->element_size, stream);
    crmm_priv_cuda_leave_device(previous);
    return status;
}

/* Read the element at an index that is within the vector. An element that fits goes by way of the
 * stack, so that a wait that fails leaves the caller's variable alone: CUDA has written pageable
 * memory such as a stack when the copy returns. */
static crmm_status read_element(const crmm_device_uvector *vector, size_t index, crmm_stream stream,
                                void *value)
{
    unsigned char small[256];

    if (vector->element_size > sizeof(small)) {
        return copy(vector, value, element_at(vector, index), stream, true);
    }
    crmm_status status = copy(vector, small, element_at(vector, index), stream, true);
    if (status == CRMM_SUCCESS) {
        memcpy(value, small, vector->element_size);
    }
    return status;
}

crmm_status crmm_device_uvector_element(const crmm_device_uvector *vector, size_t index,
                                        crmm_stream stream, void *value)
{
    crmm_status status = require_element("crmm_device_uvector_element", vector, index, value);
    return status != CRMM_SUCCESS ? status : read_element(vector, index, stream, value);
}

crmm_status crmm_device_uvector_front_element(const crmm_device_uvector *vector, crmm_stream stream,
                                              void *value)
{
    crmm_status status = require_element("crmm_device_uvector_front_element", vector, 0, value);
    return status != CRMM_SUCCESS ? status : read_element(vector, 0, stream, value);
}

crmm_status crmm_device_uvector_back_element(const crmm_device_uvector *vector, crmm_stream stream,
                                             void *value)
{
    /* An empty vector has no index 0 either. */
    size_t size = vector != NULL ? count_elements(vector, vector->buffer.size) : 0;
    size_t last = size > 0 ? size - 1 : 0;

    crmm_status status = require_element("crmm_device_uvector_back_element", vector, last, value);
    return status != CRMM_SUCCESS ? status : read_element(vector, last, stream, value);
}

/* ---- accessors ---- */

/* The vector, or an empty one in place of NULL. */
static const crmm_device_uvector *look_at(const char *call, const crmm_device_uvector *vector)
{
    static const crmm_device_uvector empty;

    if (vector == NULL) {
        report_null(class_name, call, "vector");
        return &empty;
    }
    return vector;
}

void *crmm_device_uvector_element_ptr(const crmm_device_uvector *vector, size_t index)
{
    static const char call[] = "crmm_device_uvector_element_ptr";

    if (vector == NULL) {
        report_null(class_name, call, "vector");
        return NULL;
    }
    size_t size = count_elements(vector, vector->buffer.size);
    if (index >= size) {
        crmm_priv_report(
            (crmm_misuse){.kind = CRMM_MISUSE_INVALID_ARGUMENT, .resource_name = class_name},
            "%s: index %zu in a vector of %zu elements", call, index, size);
        return NULL;
    }
    return element_at(vector, index);
}

void *crmm_device_uvector_data(const crmm_device_uvector *vector)
{
    return look_at("crmm_device_uvector_data", vector)->buffer.data;
}

void *crmm_device_uvector_begin(const crmm_device_uvector *vector)
{
    return look_at("crmm_device_uvector_begin", vector)->buffer.data;
}

void *crmm_device_uvector_end(const crmm_device_uvector *vector)
{
    const crmm_device_uvector *found = look_at("crmm_device_uvector_end", vector);

    return found->buffer.data != NULL ? (char *)found->buffer.data + found->buffer.size : NULL;
}

size_t crmm_device_uvector_size(const crmm_device_uvector *vector)
{
    const crmm_device_uvector *found = look_at("crmm_device_uvector_size", vector);

    return count_elements(found, found->buffer.size);
}

int64_t crmm_device_uvector_ssize(const crmm_device_uvector *vector)
{
    const crmm_device_uvector *found = look_at("crmm_device_uvector_ssize", vector);

    /* At most PTRDIFF_MAX: no allocation is larger. */
    return (int64_t)count_elements(found, found->buffer.size);
}

size_t crmm_device_uvector_capacity(const crmm_device_uvector *vector)
{
    const crmm_device_uvector *found = look_at("crmm_device_uvector_capacity", vector);

    return count_elements(found, found->buffer.capacity);
}

size_t crmm_device_uvector_element_size(const crmm_device_uvector *vector)
{
    return look_at("crmm_device_uvector_element_size", vector)->element_size;
}

size_t crmm_device_uvector_alignment(const crmm_device_uvector *vector)
{
    return crmm_device_buffer_alignment(&look_at("crmm_device_uvector_alignment", vector)->buffer);
}

bool crmm_device_uvector_is_empty(const crmm_device_uvector *vector)
{
    return look_at("crmm_device_uvector_is_empty", vector)->buffer.size == 0;
}

crmm_stream crmm_device_uvector_stream(const crmm_device_uvector *vector)
{
    return look_at("crmm_device_uvector_stream", vector)->buffer.stream;
}

crmm_device_async_resource_ref crmm_device_uvector_memory_resource(
    const crmm_device_uvector *vector)
{
    return crmm_device_buffer_memory_resource(
        &look_at("crmm_device_uvector_memory_resource", vector)->buffer);
}
