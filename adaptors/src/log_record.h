/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_LOG_RECORD_H
#define CRMM_ADAPTORS_SRC_LOG_RECORD_H

#include <stddef.h>
#include <stdint.h>

typedef enum crmm_priv_log_action {
    CRMM_PRIV_LOG_ALLOCATE,
    CRMM_PRIV_LOG_ALLOCATE_FAILURE,
    CRMM_PRIV_LOG_FREE
} crmm_priv_log_action;

/* What is known of a call when it is made; it becomes a row later. */
typedef struct crmm_priv_log_record {
    uint64_t time; /* nanoseconds since the epoch */
    uint64_t ptr;
    uint64_t bytes;
    uint64_t stream; /* the handle */
    uint32_t thread;
    uint16_t action; /* crmm_priv_log_action */
    uint16_t status; /* crmm_status of a failure */
} crmm_priv_log_record;

#endif
