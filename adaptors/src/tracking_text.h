/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_TRACKING_TEXT_H
#define CRMM_ADAPTORS_SRC_TRACKING_TEXT_H

#include <crmm/internal/text.h>

#include "tracking_table.h"

/* One line for each allocation of a list, and for each call of its stack. */
void crmm_priv_tracked_write(crmm_priv_text *text, const crmm_priv_tracked_list *list);

/* The same for one allocation that was not given back, in the library's log, in the name of `who`.
 */
void crmm_priv_tracked_log(const char *who, const crmm_priv_tracked *leak);

#endif
