/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_COMMON_CHECKS_H
#define CRMM_TESTS_SUPPORT_COMMON_CHECKS_H

/*
 * What every device resource is asked to do, on one thread and on several: the groups and numbers
 * of RMM's generic suite (reference: its mr_ref_test). A check gives NULL, or what is wrong.
 */

#include <crmm/core/resource.h>

/* What a resource is asked for. */
typedef struct common_case {
    crmm_resource *mr;
    crmm_stream stream;
    bool is_sync;  /* by the sync calls */
    size_t most;   /* bytes of a random request */
    uint64_t seed; /* of the random choices */
} common_case;

/* 4 bytes, 1 KiB, 1 MiB and 1 GiB, which may not be there; 1 PiB, which is not. */
const char *common_various_sizes(const common_case *of);

/* 100 of random size, then all given back. */
const char *common_random(const common_case *of);

/* 200 steps, each of which allocates or gives one back. */
const char *common_mixed(const common_case *of);

/* Two live blocks have two addresses. */
const char *common_different(const common_case *of);

/* All of these, by both kinds of calls, on the legacy stream and one of its own. */
const char *common_all(crmm_resource *mr, size_t most);

/* The same by four threads at once. */
const char *common_all_by_threads(crmm_resource *mr, size_t most);

/* One thread allocates 100 blocks, another gives them back: on one stream or two, which are ordered
 * by events. Null streams are the legacy one. */
const char *common_hand_over(crmm_resource *mr, crmm_stream from, crmm_stream to, size_t most);

#endif
