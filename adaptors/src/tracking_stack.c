/* SPDX-License-Identifier: Apache-2.0 */
#include "tracking_stack.h"

#include <stdlib.h>
#include <string.h>

#if CRMM_PRIV_HAVE_EXECINFO
#include <execinfo.h>

/* What is left out: the frame of crmm_priv_stack_capture(). */
enum { OWN_FRAMES = 1 };

bool crmm_priv_stack_prepare(void)
{
    void *address = NULL;

    /* The first call loads the unwinder, which is not to happen within an allocation. */
    return backtrace(&address, 1) >= 0;
}

__attribute__((noinline)) crmm_priv_stack *crmm_priv_stack_capture(void)
{
    void *addresses[CRMM_PRIV_STACK_DEPTH + OWN_FRAMES];
    int found = backtrace(addresses, CRMM_PRIV_STACK_DEPTH + OWN_FRAMES);
    size_t length = found > OWN_FRAMES ? (size_t)found - OWN_FRAMES : 0;
    crmm_priv_stack *stack = malloc(sizeof(*stack) + length * sizeof(stack->addresses[0]));

    if (stack != NULL) {
        stack->references = 1;
        stack->length = length;
        memcpy(stack->addresses, addresses + OWN_FRAMES, length * sizeof(stack->addresses[0]));
    }
    return stack;
}

char **crmm_priv_stack_symbols(const crmm_priv_stack *stack)
{
    return backtrace_symbols(stack->addresses, (int)stack->length);
}

#else

bool crmm_priv_stack_prepare(void)
{
    return false;
}

crmm_priv_stack *crmm_priv_stack_capture(void)
{
    return NULL;
}

char **crmm_priv_stack_symbols(const crmm_priv_stack *stack)
{
    (void)stack;
    return NULL;
}

#endif

void crmm_priv_stack_retain(crmm_priv_stack *stack)
{
    if (stack != NULL) {
        (void)__atomic_fetch_add(&stack->references, 1, __ATOMIC_RELAXED);
    }
}

void crmm_priv_stack_release(crmm_priv_stack *stack)
{
    if (stack != NULL && __atomic_fetch_sub(&stack->references, 1, __ATOMIC_ACQ_REL) == 1) {
        free(stack);
    }
}
