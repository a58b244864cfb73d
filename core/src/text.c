/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/text.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

crmm_priv_text crmm_priv_text_begin(char *start, size_t size)
{
    if (start != NULL && size > 0) {
        start[0] = '\0';
    }
    return (crmm_priv_text){.start = start, .size = start != NULL ? size : 0};
}

void crmm_priv_text_append(crmm_priv_text *text, const char *format, ...)
{
    bool room = text->length < text->size;
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(room ? text->start + text->length : NULL,
                           room ? text->size - text->length : 0, format, arguments);
    va_end(arguments);
    if (length > 0) {
        text->length += (size_t)length;
    }
}
