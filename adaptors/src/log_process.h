/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_LOG_PROCESS_H
#define CRMM_ADAPTORS_SRC_LOG_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The logs of this process: what has to happen to them when it forks and when it exits. Handlers
 * for both are registered when the first log is made.
 */
typedef struct crmm_priv_log_link {
    struct crmm_priv_log_link *next;
    struct crmm_priv_log_link **here; /* what points to this one */
    size_t process;                   /* of which process it is; see below */
} crmm_priv_log_link;

/* Which process this is, counted from the one that loaded the library; forks count up. */
size_t crmm_priv_log_process(void);

/* The system's id of this thread, asked once. */
uint32_t crmm_priv_log_thread(void);

/*
 * Enter a log of this process; when it exits `at_exit` is called, which must not enter or leave
 * one. Gives false, and does not enter it, once the exit has begun.
 */
bool crmm_priv_log_enter(crmm_priv_log_link *link, void (*at_exit)(crmm_priv_log_link *link));

/* Remove it, if it was entered and is of this process. */
void crmm_priv_log_leave(crmm_priv_log_link *link);

#endif
