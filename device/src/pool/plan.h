/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_PLAN_H
#define CRMM_DEVICE_POOL_PLAN_H

/*
 * Where in a heap's address space a request would miss the fewest pages: free memory and holes next
 * to each other, long enough together. Fewest missing units, in the words of fragmentation studies,
 * holds less memory than any choice of free blocks does.
 */

#include "request.h"

typedef struct crmm_priv_pool_plan {
    uint32_t hole;       /* the extent to fill first; 0: there is no place */
    uint64_t at;         /* the part of it: from here */
    uint32_t size;       /* so many granules */
    uint64_t begin, end; /* all that the block may come to lie in */
    uint64_t missing;    /* granules of holes in there to fill */
} crmm_priv_pool_plan;

/* The heap is locked. `page` is the unit of holes, in granules. */
crmm_priv_pool_plan crmm_priv_pool_plan_for(const crmm_priv_pool_request *request, uint32_t page);

#endif
