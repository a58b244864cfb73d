/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/containers/polymorphic_allocator.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>

#include "report_null.h"
#include "take_resource.h"

static const char class_name[] = "polymorphic_allocator";

_Static_assert(sizeof(crmm_polymorphic_allocator) == sizeof(size_t) + sizeof(void *),
               "the layout is frozen");

/* ---- init ---- */

/* What every function that makes an allocator is given to fill, and for what. */
static crmm_status require_out(const char *call, const crmm_polymorphic_allocator *allocator,
                               size_t element_size)
{
    if (allocator == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: allocator is NULL", call);
    }
    return element_size != 0 ? CRMM_SUCCESS
                             : FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: element_size is 0", call);
}

crmm_status crmm_polymorphic_allocator_init(crmm_polymorphic_allocator *allocator,
                                            size_t element_size, crmm_resource *mr)
{
    crmm_resource *taken = NULL;

    crmm_status status = require_out("crmm_polymorphic_allocator_init", allocator, element_size);
    if (status == CRMM_SUCCESS) {
        status = take_resource(class_name, mr, &taken);
    }
    if (status == CRMM_SUCCESS) {
        *allocator = (crmm_polymorphic_allocator){element_size, taken};
    }
    return status;
}

crmm_status crmm_polymorphic_allocator_rebind(const crmm_polymorphic_allocator *other,
                                              size_t element_size,
                                              crmm_polymorphic_allocator *allocator)
{
    static const char call[] = "crmm_polymorphic_allocator_rebind";

    crmm_status status = require_out(call, allocator, element_size);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (other == NULL || other->resource == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: other is %s", call,
                    other == NULL ? "NULL" : "empty");
    }
    *allocator = (crmm_polymorphic_allocator){element_size, crmm_resource_retain(other->resource)};
    return CRMM_SUCCESS;
}

void crmm_polymorphic_allocator_finish(crmm_polymorphic_allocator *allocator)
{
    if (allocator == NULL) {
        return;
    }
    crmm_resource_release(&allocator->resource);
    allocator->element_size = 0;
}

/* ---- memory ---- */

crmm_status crmm_polymorphic_allocator_allocate(const crmm_polymorphic_allocator *allocator,
                                                size_t count, crmm_stream stream, void **ptr)
{
    static const char call[] = "crmm_polymorphic_allocator_allocate";
    size_t bytes = 0;

    if (allocator == NULL || allocator->resource == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: allocator is %s", call,
                    allocator == NULL ? "NULL" : "empty");
    }
    if (__builtin_mul_overflow(count, allocator->element_size, &bytes)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: %zu elements of %zu bytes are more than size_t can say", call, count,
                    allocator->element_size);
    }
    return crmm_allocate(allocator->resource, stream, bytes, CRMM_DEVICE_ALIGNMENT, ptr);
}

void crmm_polymorphic_allocator_deallocate(const crmm_polymorphic_allocator *allocator, void *ptr,
                                           size_t count, crmm_stream stream)
{
    static const char call[] = "crmm_polymorphic_allocator_deallocate";
    const crmm_misuse found = {.kind = CRMM_MISUSE_INVALID_ARGUMENT,
                               .resource_name = class_name,
                               .ptr = ptr,
                               .alignment = CRMM_DEVICE_ALIGNMENT};
    size_t bytes = 0;

    if (ptr == NULL) {
        return;
    }
    if (allocator == NULL || allocator->resource == NULL) {
        crmm_priv_report(found, "%s: %p is given to an allocator that is %s", call, ptr,
                         allocator == NULL ? "NULL" : "empty");
        return;
    }
    if (__builtin_mul_overflow(count, allocator->element_size, &bytes)) {
        crmm_priv_report(found,
                         "%s: %p is given back as %zu elements of %zu bytes, which is more than "
                         "size_t can say",
                         call, ptr, count, allocator->element_size);
        return;
    }
    crmm_deallocate(allocator->resource, stream, ptr, bytes, CRMM_DEVICE_ALIGNMENT);
}

/* ---- accessors ---- */

/* The allocator, or an empty one in place of NULL. */
static const crmm_polymorphic_allocator *look_at(const char *call,
                                                 const crmm_polymorphic_allocator *allocator)
{
    static const crmm_polymorphic_allocator empty;

    if (allocator == NULL) {
        report_null(class_name, call, "allocator");
        return &empty;
    }
    return allocator;
}

bool crmm_polymorphic_allocator_is_equal(const crmm_polymorphic_allocator *a,
                                         const crmm_polymorphic_allocator *b)
{
    if (a == NULL || b == NULL) {
        report_null(class_name, "crmm_polymorphic_allocator_is_equal", a == NULL ? "a" : "b");
        return false;
    }
    return crmm_resource_is_equal(a->resource, b->resource);
}

crmm_resource *crmm_polymorphic_allocator_upstream(const crmm_polymorphic_allocator *allocator)
{
    return look_at("crmm_polymorphic_allocator_upstream", allocator)->resource;
}

size_t crmm_polymorphic_allocator_element_size(const crmm_polymorphic_allocator *allocator)
{
    return look_at("crmm_polymorphic_allocator_element_size", allocator)->element_size;
}
