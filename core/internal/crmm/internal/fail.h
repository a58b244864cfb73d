/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_FAIL_H
#define CRMM_INTERNAL_FAIL_H

#include <stddef.h>

#include <crmm/core/error.h>

/*
 * Record why a call fails and evaluate to `status`: `return FAIL(...)`. Macros, so that compilers
 * and analysers see which constant comes back. The format is printf's; nothing is allocated.
 */
#define FAIL(status, native_code, ...) \
    (crmm_priv_fail((status), (native_code), 0, __VA_ARGS__), (status))

/* The same for an allocation, with the bytes that were asked for. */
#define FAIL_BYTES(status, native_code, bytes, ...) \
    (crmm_priv_fail((status), (native_code), (bytes), __VA_ARGS__), (status))

__attribute__((format(printf, 4, 5))) void crmm_priv_fail(crmm_status status, int native_code,
                                                          size_t requested_bytes,
                                                          const char *format, ...);

/* Add to the record of a failure how many bytes its resource had handed out. */
void crmm_priv_note_live_bytes(size_t live_bytes);

/* The same for a resource that keeps free memory: what it had handed out, and what it held. */
void crmm_priv_note_memory(size_t live_bytes, size_t cached_bytes, size_t pending_bytes,
                           size_t largest_free_bytes);

/* What was asked of a resource that asks another one for more: the record keeps all it says, behind
 * the words that the format makes, but for the bytes that were asked for. */
__attribute__((format(printf, 2, 3))) void crmm_priv_fail_for(size_t requested_bytes,
                                                              const char *format, ...);

/* Put a copy of this thread's record back, after calls whose failures are nobody's business. */
void crmm_priv_restore_error(const crmm_error *copy);

#endif
