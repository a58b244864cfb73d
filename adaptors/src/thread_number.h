/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_THREAD_NUMBER_H
#define CRMM_ADAPTORS_SRC_THREAD_NUMBER_H

/* The calling thread's number, plus 1; 0: it has none yet. */
extern __attribute__((visibility("hidden"))) _Thread_local unsigned crmm_priv_own_thread_number;
void crmm_priv_choose_thread_number(void);

/* A number of the calling thread, counted from 0: what is split among shards is split by it. */
static inline unsigned crmm_priv_thread_number(void)
{
    if (crmm_priv_own_thread_number == 0) {
        crmm_priv_choose_thread_number();
    }
    return crmm_priv_own_thread_number - 1;
}

#endif
