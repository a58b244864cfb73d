/* SPDX-License-Identifier: Apache-2.0 */
#include "behaviour_table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include <crmm/core/error.h>

static FILE *table; /* NULL: nobody wants it */

void table_write(const char *format, ...)
{
    va_list arguments;

    if (table != NULL) {
        va_start(arguments, format);
        (void)vfprintf(table, format, arguments);
        va_end(arguments);
    }
}

void table_open(const char *mode)
{
    const char *path = getenv("CRMM_BEHAVIOUR_MATRIX");

    if (path != NULL) {
        table = fopen(path, mode);
        cr_assert(table != NULL, "%s cannot be opened", path);
    }
}

void table_close(void)
{
    if (table != NULL) {
        (void)fclose(table);
        table = NULL;
    }
}

const char *short_name(crmm_status status)
{
    return status == CRMM_SUCCESS ? "success" : crmm_status_name(status) + strlen("CRMM_ERROR_");
}

crmm_resource *make_row(const row *of, char *why)
{
    crmm_resource *mr = NULL;

    cr_assert(every_resource_make(of, &mr, why) == CRMM_SUCCESS, "%s: %s", of->name,
              crmm_last_error()->message);
    return mr;
}

crmm_status take(crmm_resource *mr, crmm_stream stream, size_t bytes, size_t alignment, void **ptr)
{
    return crmm_resource_has(mr, CRMM_STREAM_ORDERED)
               ? crmm_allocate(mr, stream, bytes, alignment, ptr)
               : crmm_allocate_sync(mr, bytes, alignment, ptr);
}

void give(crmm_resource *mr, crmm_stream stream, void *ptr, size_t bytes, size_t alignment)
{
    if (crmm_resource_has(mr, CRMM_STREAM_ORDERED)) {
        crmm_deallocate(mr, stream, ptr, bytes, alignment);
    } else {
        crmm_deallocate_sync(mr, ptr, bytes, alignment);
    }
}
