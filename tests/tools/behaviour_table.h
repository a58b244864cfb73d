/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_TOOLS_BEHAVIOUR_TABLE_H
#define CRMM_TESTS_TOOLS_BEHAVIOUR_TABLE_H

/* What the cases of the behaviour matrix share: the file that the answers go to, and calls by which
 * any resource can be asked. */

#include <crmm/core/resource.h>

#include "every_resource.h"

enum { TEXT = 48 };

/* The file that CRMM_BEHAVIOUR_MATRIX in the environment names, if it does, for fopen()'s `mode`.
 */
void table_open(const char *mode);
void table_close(void);

/* To that file, as printf() does; nothing where there is none. */
__attribute__((format(printf, 1, 2))) void table_write(const char *format, ...);

/* "success", or the status without what all failures begin with. */
const char *short_name(crmm_status status);

/* NULL: there is none here, and `why`, of TEXT bytes, says why. */
crmm_resource *make_row(const row *of, char *why);

/* By the call that the resource has, with a stream if it takes one. */
crmm_status take(crmm_resource *mr, crmm_stream stream, size_t bytes, size_t alignment, void **ptr);
void give(crmm_resource *mr, crmm_stream stream, void *ptr, size_t bytes, size_t alignment);

#endif
