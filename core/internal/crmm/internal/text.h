/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_TEXT_H
#define CRMM_INTERNAL_TEXT_H

#include <stddef.h>

/* A text that is being written, with snprintf()'s rules: what does not fit is only counted. */
typedef struct crmm_priv_text {
    char *start; /* may be NULL with `size` 0 */
    size_t size;
    size_t length; /* of the whole text so far */
} crmm_priv_text;

/* An empty text; NULL counts as no room. */
crmm_priv_text crmm_priv_text_begin(char *start, size_t size);

__attribute__((format(printf, 2, 3))) void crmm_priv_text_append(crmm_priv_text *text,
                                                                 const char *format, ...);

#endif
