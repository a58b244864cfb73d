/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_LOG_FILE_NAME_H
#define CRMM_ADAPTORS_SRC_LOG_FILE_NAME_H

#include <crmm/core/resource.h>

/* The text of a device's UUID, "GPU-" and 36 characters. */
enum { CRMM_PRIV_LOG_UUID_TEXT = 41 };

/*
 * The device that a log is of: the one `upstream` belongs to, else the current one. A CUDA error
 * code, or 0.
 */
int crmm_priv_log_device(const crmm_resource *upstream, int *device);

/*
 * The file that a name stands for: %p, %d, %u and %% replaced, in memory of the heap. Failures are
 * described in the name of `who`.
 */
crmm_status crmm_priv_log_file_name(const char *who, const char *name,
                                    const crmm_resource *upstream, char **out);

#endif
