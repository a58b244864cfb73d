/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/containers/stream_allocator_adaptor.h>

#include <crmm/internal/fail.h>

#include "report_null.h"

static const char class_name[] = "stream_allocator_adaptor";

_Static_assert(sizeof(crmm_stream_allocator_adaptor) ==
                   sizeof(crmm_polymorphic_allocator) + sizeof(crmm_stream),
               "the layout is frozen");

/* ---- init ---- */

crmm_status crmm_stream_allocator_adaptor_init(crmm_stream_allocator_adaptor *adaptor,
                                               const crmm_polymorphic_allocator *allocator,
                                               crmm_stream stream)
{
    static const char call[] = "crmm_stream_allocator_adaptor_init";

    if (adaptor == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: adaptor is NULL", call);
    }
    if (allocator == NULL || allocator->resource == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: allocator is %s", call,
                    allocator == NULL ? "NULL" : "empty");
    }
    crmm_status status =
        crmm_polymorphic_allocator_rebind(allocator, allocator->element_size, &adaptor->allocator);
    if (status == CRMM_SUCCESS) {
        adaptor->stream = stream;
    }
    return status;
}

crmm_status crmm_stream_allocator_adaptor_rebind(const crmm_stream_allocator_adaptor *other,
                                                 size_t element_size,
                                                 crmm_stream_allocator_adaptor *adaptor)
{
    static const char call[] = "crmm_stream_allocator_adaptor_rebind";

    if (adaptor == NULL || other == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: %s is NULL", call,
                    adaptor == NULL ? "adaptor" : "other");
    }
    crmm_status status =
        crmm_polymorphic_allocator_rebind(&other->allocator, element_size, &adaptor->allocator);
    if (status == CRMM_SUCCESS) {
        adaptor->stream = other->stream;
    }
    return status;
}

void crmm_stream_allocator_adaptor_finish(crmm_stream_allocator_adaptor *adaptor)
{
    if (adaptor == NULL) {
        return;
    }
    crmm_polymorphic_allocator_finish(&adaptor->allocator);
    adaptor->stream = NULL;
}

/* ---- memory ---- */

crmm_status crmm_stream_allocator_adaptor_allocate(const crmm_stream_allocator_adaptor *adaptor,
                                                   size_t count, void **ptr)
{
    if (adaptor == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "crmm_stream_allocator_adaptor_allocate: adaptor is NULL");
    }
    return crmm_polymorphic_allocator_allocate(&adaptor->allocator, count, adaptor->stream, ptr);
}

void crmm_stream_allocator_adaptor_deallocate(const crmm_stream_allocator_adaptor *adaptor,
                                              void *ptr, size_t count)
{
    if (ptr == NULL) {
        return;
    }
    if (adaptor == NULL) {
        report_null(class_name, "crmm_stream_allocator_adaptor_deallocate", "adaptor");
        return;
    }
    crmm_polymorphic_allocator_deallocate(&adaptor->allocator, ptr, count, adaptor->stream);
}

/* ---- accessors ---- */

bool crmm_stream_allocator_adaptor_is_equal(const crmm_stream_allocator_adaptor *a,
                                            const crmm_stream_allocator_adaptor *b)
{
    if (a == NULL || b == NULL) {
        report_null(class_name, "crmm_stream_allocator_adaptor_is_equal", a == NULL ? "a" : "b");
        return false;
    }
    return crmm_polymorphic_allocator_is_equal(&a->allocator, &b->allocator);
}

crmm_stream crmm_stream_allocator_adaptor_stream(const crmm_stream_allocator_adaptor *adaptor)
{
    if (adaptor == NULL) {
        report_null(class_name, "crmm_stream_allocator_adaptor_stream", "adaptor");
        return NULL;
    }
    return adaptor->stream;
}

const crmm_polymorphic_allocator *crmm_stream_allocator_adaptor_underlying_allocator(
    const crmm_stream_allocator_adaptor *adaptor)
{
    if (adaptor == NULL) {
        report_null(class_name, "crmm_stream_allocator_adaptor_underlying_allocator", "adaptor");
        return NULL;
    }
    return &adaptor->allocator;
}
