/* SPDX-License-Identifier: Apache-2.0 */
#include "same_container.h"

#include <stddef.h>

/* A member that is added must be compared below; most change these sizes. */
_Static_assert(sizeof(crmm_device_buffer) ==
                   offsetof(crmm_device_buffer, device) + _Alignof(crmm_device_buffer),
               "crmm_device_buffer has another last member");
_Static_assert(sizeof(crmm_device_uvector) == sizeof(crmm_device_buffer) + sizeof(size_t),
               "crmm_device_uvector has more than two members");
_Static_assert(sizeof(crmm_device_scalar) == sizeof(crmm_device_uvector),
               "crmm_device_scalar has more than one member");

bool same_buffer(const crmm_device_buffer *a, const crmm_device_buffer *b)
{
    return a->data == b->data && a->size == b->size && a->capacity == b->capacity &&
           a->alignment == b->alignment && a->stream == b->stream && a->resource == b->resource &&
           a->device == b->device;
}

bool same_uvector(const crmm_device_uvector *a, const crmm_device_uvector *b)
{
    return same_buffer(&a->buffer, &b->buffer) && a->element_size == b->element_size;
}

bool same_scalar(const crmm_device_scalar *a, const crmm_device_scalar *b)
{
    return same_uvector(&a->vector, &b->vector);
}
