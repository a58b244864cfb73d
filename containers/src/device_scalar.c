/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/containers/device_scalar.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>

#include "report_null.h"

static const char class_name[] = "device_scalar";

_Static_assert(sizeof(crmm_device_scalar) == sizeof(crmm_device_uvector), "the layout is frozen");

/* ---- helpers ---- */

static crmm_status require_scalar(const char *call, const crmm_device_scalar *scalar)
{
    return scalar != NULL ? CRMM_SUCCESS
                          : FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: scalar is NULL", call);
}

static crmm_status require_value(const char *call, const void *value)
{
    return value != NULL ? CRMM_SUCCESS
                         : FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: value is NULL", call);
}

/* Whether there is a value that a call may read from or write to `value`. */
static crmm_status require_both(const char *call, const crmm_device_scalar *scalar,
                                const void *value)
{
    crmm_status status = require_scalar(call, scalar);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (scalar->vector.buffer.size == 0) {
        return FAIL(CRMM_ERROR_OUT_OF_RANGE, 0, "%s: the scalar is empty", call);
    }
    return require_value(call, value);
}

/* ---- init ---- */

/* How a value comes to a scalar: crmm_device_uvector_set_element(), or the same without a wait. */
typedef crmm_status (*set_element)(crmm_device_uvector *, size_t, const void *, crmm_stream);

static crmm_status init(const char *call, crmm_device_scalar *scalar, size_t element_size,
                        size_t alignment, const void *value, crmm_stream stream, crmm_resource *mr,
                        set_element set)
{
    crmm_device_uvector made;

    crmm_status status = require_scalar(call, scalar);
    if (status == CRMM_SUCCESS) {
        status = require_value(call, value);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = crmm_device_uvector_init_aligned(&made, 1, element_size, alignment, stream, mr);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = set(&made, 0, value, stream);
    if (status != CRMM_SUCCESS) {
        crmm_device_uvector_finish(&made);
        return status;
    }
    scalar->vector = made;
    return CRMM_SUCCESS;
}

crmm_status crmm_device_scalar_init(crmm_device_scalar *scalar, size_t element_size,
                                    const void *value, crmm_stream stream, crmm_resource *mr)
{
    return init("crmm_device_scalar_init", scalar, element_size, CRMM_DEVICE_ALIGNMENT, value,
                stream, mr, crmm_device_uvector_set_element);
}

crmm_status crmm_device_scalar_init_aligned(crmm_device_scalar *scalar, size_t element_size,
                                            size_t alignment, const void *value, crmm_stream stream,
                                            crmm_resource *mr)
{
    return init("crmm_device_scalar_init_aligned", scalar, element_size, alignment, value, stream,
                mr, crmm_device_uvector_set_element);
}

crmm_status crmm_device_scalar_init_async(crmm_device_scalar *scalar, size_t element_size,
                                          const void *value, crmm_stream stream, crmm_resource *mr)
{
    return init("crmm_device_scalar_init_async", scalar, element_size, CRMM_DEVICE_ALIGNMENT, value,
                stream, mr, crmm_device_uvector_set_element_async);
}

crmm_status crmm_device_scalar_init_uninitialized(crmm_device_scalar *scalar, size_t element_size,
                                                  size_t alignment, crmm_stream stream,
                                                  crmm_resource *mr)
{
    crmm_status status = require_scalar("crmm_device_scalar_init_uninitialized", scalar);
    return status != CRMM_SUCCESS ? status
                                  : crmm_device_uvector_init_aligned(
                                        &scalar->vector, 1, element_size, alignment, stream, mr);
}

crmm_status crmm_device_scalar_init_clone(crmm_device_scalar *scalar,
                                          const crmm_device_scalar *other, crmm_stream stream,
                                          crmm_resource *mr)
{
    static const char call[] = "crmm_device_scalar_init_clone";

    crmm_status status = require_scalar(call, scalar);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (other == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: other is NULL", call);
    }
    return crmm_device_uvector_init_clone(&scalar->vector, &other->vector, stream, mr);
}

/* ---- the value ---- */

crmm_status crmm_device_scalar_value(const crmm_device_scalar *scalar, crmm_stream stream,
                                     void *value)
{
    crmm_status status = require_both("crmm_device_scalar_value", scalar, value);
    return status != CRMM_SUCCESS ? status
                                  : crmm_device_uvector_element(&scalar->vector, 0, stream, value);
}

crmm_status crmm_device_scalar_set_value(crmm_device_scalar *scalar, const void *value,
                                         crmm_stream stream)
{
    crmm_status status = require_both("crmm_device_scalar_set_value", scalar, value);
    return status != CRMM_SUCCESS
               ? status
               : crmm_device_uvector_set_element(&scalar->vector, 0, value, stream);
}

crmm_status crmm_device_scalar_set_value_async(crmm_device_scalar *scalar, const void *value,
                                               crmm_stream stream)
{
    crmm_status status = require_both("crmm_device_scalar_set_value_async", scalar, value);
    return status != CRMM_SUCCESS
               ? status
               : crmm_device_uvector_set_element_async(&scalar->vector, 0, value, stream);
}

crmm_status crmm_device_scalar_set_value_to_zero_async(crmm_device_scalar *scalar,
                                                       crmm_stream stream)
{
    crmm_status status = require_both("crmm_device_scalar_set_value_to_zero_async", scalar, scalar);
    return status != CRMM_SUCCESS
               ? status
               : crmm_device_uvector_set_element_to_zero_async(&scalar->vector, 0, stream);
}

/* ---- stream, move, finish ---- */

crmm_status crmm_device_scalar_set_stream(crmm_device_scalar *scalar, crmm_stream stream)
{
    crmm_status status = require_scalar("crmm_device_scalar_set_stream", scalar);
    return status != CRMM_SUCCESS ? status
                                  : crmm_device_uvector_set_stream(&scalar->vector, stream);
}

void crmm_device_scalar_set_stream_unordered(crmm_device_scalar *scalar, crmm_stream stream)
{
    if (scalar == NULL) {
        report_null(class_name, "crmm_device_scalar_set_stream_unordered", "scalar");
        return;
    }
    crmm_device_uvector_set_stream_unordered(&scalar->vector, stream);
}

void crmm_device_scalar_move(crmm_device_scalar *destination, crmm_device_scalar *source)
{
    if (destination == NULL || source == NULL) {
        report_null(class_name, "crmm_device_scalar_move",
                    destination == NULL ? "destination" : "source");
        return;
    }
    crmm_device_uvector_move(&destination->vector, &source->vector);
}

void crmm_device_scalar_finish(crmm_device_scalar *scalar)
{
    if (scalar != NULL) {
        crmm_device_uvector_finish(&scalar->vector);
    }
}

/* ---- accessors ---- */

/* The scalar's vector, or an empty one in place of NULL. */
static const crmm_device_uvector *look_at(const char *call, const crmm_device_scalar *scalar)
{
    static const crmm_device_uvector empty;

    if (scalar == NULL) {
        report_null(class_name, call, "scalar");
        return &empty;
    }
    return &scalar->vector;
}

void *crmm_device_scalar_data(const crmm_device_scalar *scalar)
{
    return look_at("crmm_device_scalar_data", scalar)->buffer.data;
}

size_t crmm_device_scalar_size(const crmm_device_scalar *scalar)
{
    return crmm_device_uvector_size(look_at("crmm_device_scalar_size", scalar));
}

size_t crmm_device_scalar_element_size(const crmm_device_scalar *scalar)
{
    return look_at("crmm_device_scalar_element_size", scalar)->element_size;
}

crmm_stream crmm_device_scalar_stream(const crmm_device_scalar *scalar)
{
    return look_at("crmm_device_scalar_stream", scalar)->buffer.stream;
}

crmm_device_async_resource_ref crmm_device_scalar_memory_resource(const crmm_device_scalar *scalar)
{
    return crmm_device_uvector_memory_resource(
        look_at("crmm_device_scalar_memory_resource", scalar));
}
