/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_TRACKING_LABEL_H
#define CRMM_ADAPTORS_SRC_TRACKING_LABEL_H

/* The calling thread's label, or NULL; valid to the end of the process. */
const char *crmm_priv_tracking_label(void);

#endif
