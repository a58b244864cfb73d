/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_REPORT_H
#define CRMM_INTERNAL_REPORT_H

#include <stddef.h>

#include <crmm/core/misuse.h>

/*
 * Report misuse: `found` has everything but the message, which is formatted here as printf does.
 * Call it with no lock held. Nothing is allocated.
 */
__attribute__((format(printf, 2, 3))) void crmm_priv_report(crmm_misuse found, const char *format,
                                                            ...);

#endif
