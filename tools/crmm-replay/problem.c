/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <stdarg.h>
#include <stdio.h>

bool problem_set(problem *out, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(out->text, sizeof(out->text), format, arguments);
    va_end(arguments);
    return false;
}

bool problem_no_memory(problem *out)
{
    return problem_set(out, "no host memory left for the replay's own books");
}
