/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/validate.h>

#include <stdlib.h>
#include <string.h>

enum { UNKNOWN, OFF, ON };

static int state = UNKNOWN;

const char *crmm_priv_environment(const char *name)
{
    return secure_getenv(name);
}

static int read_environment(void)
{
    const char *text = crmm_priv_environment("CRMM_VALIDATE");

    if (text == NULL || text[0] == '\0') {
        return CRMM_PRIV_VALIDATE_DEFAULT ? ON : OFF;
    }
    return strcmp(text, "0") == 0 ? OFF : ON;
}

bool crmm_priv_validate(void)
{
    int current = __atomic_load_n(&state, __ATOMIC_RELAXED);

    if (current == UNKNOWN) {
        /* Threads that come here together read the same environment. */
        current = read_environment();
        __atomic_store_n(&state, current, __ATOMIC_RELAXED);
    }
    return current == ON;
}
