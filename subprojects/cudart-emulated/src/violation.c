/* SPDX-License-Identifier: Apache-2.0 */
/* What the program under test did wrong. */
#include "emulated.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT 256
#define TEXT 512

static unsigned long long total;
static char kept[KEPT][TEXT];

/* Counted always, kept up to a number, printed unless a test has taken over. */
void violation(const char *kind, const char *format, ...)
{
    char text[TEXT];
    int used = snprintf(text, sizeof text, "%s: ", kind);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    if (total < KEPT) {
        memcpy(kept[total], text, sizeof text);
    }
    total++;
    if (!config.quiet) {
        fprintf(stderr, "cudart-emulated: %s\n", text);
    }
    if (config.abort_on_violation) {
        abort();
    }
}

unsigned long long violation_count(void)
{
    return total;
}

const char *violation_text(unsigned long long index)
{
    return index < total && index < KEPT ? kept[index] : NULL;
}

void violation_clear(void)
{
    total = 0;
}
