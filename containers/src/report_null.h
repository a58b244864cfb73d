/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CONTAINERS_REPORT_NULL_H
#define CRMM_CONTAINERS_REPORT_NULL_H

#include <crmm/internal/report.h>

/* Report that an argument of a function of a class is NULL, where no error can be returned. */
static inline void report_null(const char *class_name, const char *call, const char *argument)
{
    crmm_priv_report(
        (crmm_misuse){.kind = CRMM_MISUSE_INVALID_ARGUMENT, .resource_name = class_name},
        "%s: %s is NULL", call, argument);
}

#endif
