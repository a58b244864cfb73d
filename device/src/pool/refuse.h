/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_REFUSE_H
#define CRMM_DEVICE_POOL_REFUSE_H

/*
 * What is said of calls that a pool cannot serve, whatever memory there is: in a forked child, on a
 * stream that is being captured or is none, and of blocks that are not what they were said to be.
 */

#include "pool.h"

/* Describe why a call on a stream is refused, which asked for so many bytes, 0: for none. `code` is
 * that of the stream's id, where the process is right. */
crmm_status crmm_priv_pool_refuse(const crmm_priv_pool *pool, crmm_stream stream, size_t bytes,
                                  int code);

/* Describe that no cache could be made for a call that asked for so many bytes. */
crmm_status crmm_priv_pool_no_host_memory(const crmm_priv_pool *pool, size_t bytes);

/* Report a block that was given back where it could not be, as crmm_priv_pool_refuse(). */
void crmm_priv_pool_report_stream(crmm_priv_pool *pool, crmm_stream stream, void *ptr, size_t bytes,
                                  int code);

#endif
