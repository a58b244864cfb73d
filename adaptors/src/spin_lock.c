/* SPDX-License-Identifier: Apache-2.0 */
#include "spin_lock.h"

#include <crmm/internal/let_others_run.h>

void crmm_priv_spin_wait(const crmm_priv_spin_lock *lock)
{
    enum { PATIENCE = 100 };

    for (unsigned i = 0; __atomic_load_n(lock, __ATOMIC_RELAXED) != 0; i++) {
        if (i >= PATIENCE) {
            crmm_priv_let_others_run(i - PATIENCE);
        }
    }
}
