/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_MISUSE_RECORDER_H
#define CRMM_TESTS_SUPPORT_MISUSE_RECORDER_H

#include <stddef.h>

#include <crmm/core/misuse.h>

/* The findings since recording started, and the latest of them with its texts copied. */
typedef struct misuse_record {
    size_t count;
    crmm_misuse latest;
    char message[256];
    char resource_name[64];
} misuse_record;

/* Install a handler that records, and start from 0. */
void misuse_recorder_start(void);

/* What was recorded. One thread at a time. */
const misuse_record *misuse_recorded(void);

/* One more finding than `before`, of this kind, with a message that says this; for tests. */
#define expect_misuse(call, expected_kind, part)                                                 \
    do {                                                                                         \
        size_t before_ = misuse_recorded()->count;                                               \
        call;                                                                                    \
        cr_assert(misuse_recorded()->count == before_ + 1, "%s: %zu findings instead of 1 (%s)", \
                  #call, misuse_recorded()->count - before_, misuse_recorded()->message);        \
        cr_assert(misuse_recorded()->latest.kind == (expected_kind),                             \
                  "%s: kind %d instead of %d (%s)", #call, (int)misuse_recorded()->latest.kind,  \
                  (int)(expected_kind), misuse_recorded()->message);                             \
        cr_assert(strstr(misuse_recorded()->message, (part)) != NULL,                            \
                  "\"%s\" does not say \"%s\"", misuse_recorded()->message, (part));             \
    } while (0)

#endif
