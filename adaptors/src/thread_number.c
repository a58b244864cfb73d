/* SPDX-License-Identifier: Apache-2.0 */
#include "thread_number.h"

_Thread_local unsigned crmm_priv_own_thread_number;

void crmm_priv_choose_thread_number(void)
{
    static unsigned threads;

    crmm_priv_own_thread_number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
}
