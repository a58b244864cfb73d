/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_POOL_MODEL_SECOND_THREAD_H
#define CRMM_TESTS_POOL_MODEL_SECOND_THREAD_H

/*
 * A thread that does something while the first one waits, so that a program has the caches of two
 * threads and is the same in every run. It is there from the first call on until the end.
 */
void second_thread_run(void (*what)(void *data), void *data);
/* A no-op if there is none; a later call has a new one. */
void second_thread_end(void);

#endif
