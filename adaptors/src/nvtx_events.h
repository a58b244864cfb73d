/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_NVTX_EVENTS_H
#define CRMM_ADAPTORS_SRC_NVTX_EVENTS_H

#include <stddef.h>

/*
 * What the library tells tools through NVTX; nothing else knows NVTX's headers. Without a tool each
 * of these costs a look at a pointer, once the first has found that there is none.
 */

/* A range of this thread, from now until it is popped. */
void crmm_priv_nvtx_push(const char *name, size_t bytes);
void crmm_priv_nvtx_pop(void);

/* A block that has been handed out, and one that is about to be given back. */
void crmm_priv_nvtx_add_block(const void *ptr, size_t bytes);
void crmm_priv_nvtx_remove_block(const void *ptr);

#endif
