/* SPDX-License-Identifier: Apache-2.0 */
#include "bias.h"

#include <pthread.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Of linux/membarrier.h, which not every system has. */
enum { PRIVATE_EXPEDITED = 1 << 3, REGISTER_PRIVATE_EXPEDITED = 1 << 4 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_barrier;

static long membarrier(int command)
{
#if defined(__linux__) && defined(SYS_membarrier)
    return syscall(SYS_membarrier, command, 0, 0);
#else
    (void)command;
    return -1;
#endif
}

static void look(void)
{
    has_barrier = membarrier(REGISTER_PRIVATE_EXPEDITED) == 0 && membarrier(PRIVATE_EXPEDITED) == 0;
}

bool crmm_priv_bias_has_barrier(void)
{
    (void)pthread_once(&once, look);
    return has_barrier;
}

static bool is_plain(void)
{
#ifdef CRMM_PRIV_BIAS_PLAIN
    return true;
#else
    return !crmm_priv_bias_has_barrier();
#endif
}

void crmm_priv_bias_revoke(crmm_priv_bias *bias)
{
    crmm_priv_spin_lock(&bias->lock);
    __atomic_store_n(&bias->revoked, 1, __ATOMIC_RELAXED);
}

void crmm_priv_bias_barrier(void)
{
    if (!is_plain()) {
        (void)membarrier(PRIVATE_EXPEDITED);
    }
}

void crmm_priv_bias_await(crmm_priv_bias *bias)
{
    uint32_t turns = 0;

    while (__atomic_load_n(&bias->inside, __ATOMIC_ACQUIRE) != 0) {
        crmm_priv_spin_turn(&turns);
    }
}

void crmm_priv_bias_restore(crmm_priv_bias *bias)
{
    __atomic_store_n(&bias->revoked, is_plain() ? 1 : 0, __ATOMIC_RELEASE);
    crmm_priv_spin_unlock(&bias->lock);
}
