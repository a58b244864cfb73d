/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_MOCK_RESOURCE_H
#define CRMM_TESTS_SUPPORT_MOCK_RESOURCE_H

#include <crmm/interfaces/resource.h>

/* What a mock was last asked. */
typedef struct mock_call {
    crmm_stream stream;
    void *ptr;
    size_t bytes;
    size_t alignment;
    bool sync;
} mock_call;

/*
 * A resource on the C heap that records every call and does as it is told. Written as a user would
 * write one: against crmm/interfaces/resource.h alone. One thread at a time.
 */
typedef struct mock_resource {
    struct crmm_resource base;
    size_t allocations;   /* calls that were asked for memory */
    size_t deallocations; /* calls that gave memory back */
    size_t live;          /* blocks */
    mock_call last_allocate;
    mock_call last_deallocate;
    crmm_status fail_with; /* not CRMM_SUCCESS: allocations fail with it */
    bool give_null;        /* allocations succeed with NULL */
    bool *destroyed;       /* set to true by destroy, where not NULL */
} mock_resource;

/* Set a mock up; it has one reference. */
void mock_resource_init(mock_resource *mock, crmm_properties properties);

#endif
