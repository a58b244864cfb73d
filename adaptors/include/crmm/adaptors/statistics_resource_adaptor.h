/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_STATISTICS_RESOURCE_ADAPTOR_H
#define CRMM_ADAPTORS_STATISTICS_RESOURCE_ADAPTOR_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/*
 * statistics_resource_adaptor counts what passes through it: bytes as they were asked for, and
 * allocations. Requests of 0 bytes are answered before any resource sees them and are not counted.
 *
 * A block counts from its upstream's success until just before the upstream gets it back; what
 * fails counts nowhere. So a peak is exact whenever calls do not overlap. Where they do, it is
 * never below what callers held at any time, nor above that by more than what was in flight.
 *
 * Sums that do not fit an int64_t stay at its bounds.
 *
 * crmm_deallocate_ptr() is CRMM_MISUSE_UNSUPPORTED: a block counts for its size, which no upstream
 * can be asked for.
 */

/** One figure. Frozen: members are never added. */
typedef struct crmm_statistics_counter {
    int64_t value; /**< now; negative where more was given back than allocated, which happens after
                        crmm_statistics_resource_adaptor_push_counters() */
    int64_t peak;  /**< the highest `value` so far; at least 0 */
    int64_t total; /**< sum of all that was allocated */
} crmm_statistics_counter;

/** What crmm_statistics_resource_adaptor_visit_scopes() tells about one name. */
typedef struct crmm_statistics_scope {
    size_t struct_size;        /**< sizeof(crmm_statistics_scope) in the library that calls */
    const char *name;          /**< as given to _scope_begin(); valid until the visitor returns */
    uint64_t calls;            /**< scopes of that name that have ended */
    int64_t peak_bytes;        /**< the highest peak among them */
    int64_t total_bytes;       /**< allocated within all of them */
    int64_t peak_allocations;  /**< as `peak_bytes`, in allocations */
    int64_t total_allocations; /**< as `total_bytes`, in allocations */
} crmm_statistics_scope;

/**
 * Create an adaptor that passes every request on and counts it. It has the upstream's properties
 * and device.
 *
 * @param upstream where memory comes from; retained
 * @param out      [out] the adaptor, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL argument
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the adaptor
 *
 * Thread-safety: safe. Threads count apart from each other; a call that sets a new peak, and the
 * functions below, bring the figures together. A forked child goes on from its parent's figures.
 *
 * Released for the last time with allocations counted, it reports CRMM_MISUSE_LEAK with the bytes.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_statistics_resource_adaptor_create(crmm_resource *upstream,
                                                                            crmm_resource **out);

/* ---- counters ---- */

/**
 * The counters, both as they were at one moment.
 *
 * @param adaptor     a statistics_resource_adaptor
 * @param bytes       [out] bytes; may be NULL
 * @param allocations [out] allocations; may be NULL
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `adaptor` is NULL or of another class
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_statistics_resource_adaptor_counters(
    const crmm_resource *adaptor, crmm_statistics_counter *bytes,
    crmm_statistics_counter *allocations);

/**
 * Put the counters aside and count from 0, for all threads, until the matching
 * crmm_statistics_resource_adaptor_pop_counters(). Any number can be put aside.
 *
 * @param adaptor     a statistics_resource_adaptor
 * @param bytes       [out] the counter that was put aside; may be NULL
 * @param allocations [out] the counter that was put aside; may be NULL
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `adaptor` is NULL or of another class
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory to put them aside; nothing has changed
 *
 * Thread-safety: safe; a call of another thread is counted in the one or the other.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_statistics_resource_adaptor_push_counters(
    crmm_resource *adaptor, crmm_statistics_counter *bytes, crmm_statistics_counter *allocations);

/**
 * Hand out the counters, and take up again those that were put aside last, as if they had counted
 * all the time: value and total are the sums, and the peak is the one of the whole time.
 *
 * @param adaptor     a statistics_resource_adaptor
 * @param bytes       [out] the counter since the push; may be NULL
 * @param allocations [out] the counter since the push; may be NULL
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `adaptor` is NULL or of another class
 * @retval CRMM_ERROR_OUT_OF_RANGE     none were put aside
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_statistics_resource_adaptor_pop_counters(
    crmm_resource *adaptor, crmm_statistics_counter *bytes, crmm_statistics_counter *allocations);

/* ---- named scopes of a thread ---- */

/**
 * Begin a scope: until crmm_statistics_resource_adaptor_scope_end(), what the calling thread
 * allocates and gives back through the adaptor is counted under a name too, for the report.
 *
 * Scopes nest: an inner one counts in the outer ones as well. Those of different threads do not
 * touch each other, even under one name. A thread ends its scopes itself, before it ends; an open
 * scope holds the adaptor.
 *
 * @param adaptor a statistics_resource_adaptor; retained until the scope ends
 * @param name    any text; copied
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `adaptor` is NULL or of another class; `name` is NULL
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the scope; none has begun
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status
crmm_statistics_resource_adaptor_scope_begin(crmm_resource *adaptor, const char *name);

/**
 * End the innermost scope that the calling thread has begun on an adaptor, and enter it in the
 * report.
 *
 * @param adaptor     a statistics_resource_adaptor
 * @param bytes       [out] what the scope counted; may be NULL
 * @param allocations [out] what the scope counted; may be NULL
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `adaptor` is NULL or of another class
 * @retval CRMM_ERROR_OUT_OF_RANGE     the calling thread has no open scope on it
 *
 * Thread-safety: safe. Where the scope held the last reference, this call releases the adaptor.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_statistics_resource_adaptor_scope_end(
    crmm_resource *adaptor, crmm_statistics_counter *bytes, crmm_statistics_counter *allocations);

/**
 * Call a function for every name under which a scope has begun, in the names' order.
 *
 * @param adaptor   a statistics_resource_adaptor
 * @param visitor   called on the calling thread with no lock held, so that it may call the library
 * @param user_data handed to `visitor`
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `adaptor` is NULL or of another class; `visitor` is NULL
 *
 * Thread-safety: safe; a name that another thread adds meanwhile may be visited or not.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_statistics_resource_adaptor_visit_scopes(
    const crmm_resource *adaptor,
    void (*visitor)(const crmm_statistics_scope *scope, void *user_data), void *user_data);

/**
 * The report on the scopes that have ended, as a table with one line for each name: calls, peak
 * and total bytes, peak and total allocations, name.
 *
 * @param adaptor a statistics_resource_adaptor; anything else is misuse and gives an empty text
 * @param text    [out] where the table goes, always NUL-terminated if `size` is not 0; may be NULL
 *                with `size` 0
 * @param size    bytes at `text`
 * @return length of the whole table without the NUL, as snprintf() does; at least `size` if it was
 *         cut
 *
 * Thread-safety: safe.
 */
CRMM_API size_t crmm_statistics_resource_adaptor_report_text(const crmm_resource *adaptor,
                                                             char *text, size_t size);

CRMM_END_DECLS

#endif
