/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_TRACKING_RESOURCE_ADAPTOR_H
#define CRMM_ADAPTORS_TRACKING_RESOURCE_ADAPTOR_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/options.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/*
 * tracking_resource_adaptor remembers every allocation that is outstanding: who made it, when, and
 * on request by which calls. So it finds, with validation or without, and leaves alone: memory that
 * it did not hand out (CRMM_MISUSE_FOREIGN_POINTER), memory given back with another size or
 * alignment than it was allocated with (CRMM_MISUSE_SIZE_MISMATCH, CRMM_MISUSE_ALIGNMENT_MISMATCH),
 * and memory that was given back already (CRMM_MISUSE_DOUBLE_FREE, or CRMM_MISUSE_FOREIGN_POINTER
 * if the address has been forgotten since, as all are that were given back each time some thousand
 * new ones have been handed out). Memory that was given back past it, to its upstream, is found
 * when its address is handed out again, to whatever thread (CRMM_MISUSE_FOREIGN_POINTER); then only
 * the new allocation is remembered.
 *
 * It knows the sizes, so crmm_deallocate_ptr() works.
 */

/** Options of crmm_tracking_resource_adaptor_create(); see crmm/core/options.h. */
typedef struct crmm_tracking_resource_adaptor_options {
    size_t struct_size;       /**< sizeof the struct */
    size_t capture_stacks;    /**< 1: remember the calls that lead to each allocation, up to 32;
                                   symbols are looked up when they are printed */
    size_t most_leaks_listed; /**< how many allocations are listed in the log where some are
                                   outstanding at the last release; 0: 100 */
} crmm_tracking_resource_adaptor_options;

/**
 * One outstanding allocation.
 */
typedef struct crmm_tracked_allocation {
    size_t struct_size;  /**< sizeof(crmm_tracked_allocation) in the library that calls */
    const void *ptr;     /**< the memory */
    size_t bytes;        /**< as asked for */
    size_t alignment;    /**< as asked for */
    crmm_stream stream;  /**< as given to crmm_allocate(), only to be compared: it may have been
                              destroyed since; NULL for crmm_allocate_sync() */
    uint64_t thread;     /**< the operating system's id of the thread that allocated it; in a forked
                              child's main thread, that of the parent's */
    uint64_t time;       /**< nanoseconds since 1970-01-01 00:00 UTC */
    uint64_t epoch;      /**< checkpoints that were taken before it */
    const char *label;   /**< what crmm_tracking_resource_adaptor_set_label() set, or NULL; valid to
                              the end of the process */
    void *const *stack;  /**< return addresses, innermost first, or NULL; valid until the visitor
                              returns */
    size_t stack_length; /**< number of addresses at `stack` */
} crmm_tracked_allocation;

/** For crmm_tracking_resource_adaptor_visit_between(): before any checkpoint. */
#define CRMM_TRACKING_BEGIN 0

/** For crmm_tracking_resource_adaptor_visit_between(): now. */
#define CRMM_TRACKING_NOW 0xFFFFFFFFFFFFFFFF

/** Receives one allocation, on the calling thread with no lock held; it may call the library. */
typedef void (*crmm_tracking_visitor)(const crmm_tracked_allocation *allocation, void *user_data);

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_tracking_resource_adaptor_options_init(
    crmm_tracking_resource_adaptor_options *options);

/**
 * Create an adaptor that passes every request on and remembers what is outstanding. It has the
 * upstream's properties and device.
 *
 * @param upstream where memory comes from; retained
 * @param options  NULL for all defaults
 * @param out      [out] the adaptor, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `upstream` or `out`; `capture_stacks` is neither 0 nor
 * 1; a wrong struct_size
 * @retval CRMM_ERROR_UNSUPPORTED      `capture_stacks` where the C library cannot; an option of a
 *                                     newer version is set
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the adaptor
 *
 * An allocation fails with CRMM_ERROR_OUT_OF_MEMORY, and its memory goes back, where there is no
 * host memory to remember it. One for whose stack there is none is remembered without.
 *
 * Released for the last time with allocations outstanding, it lists them in the library's log, at
 * level error, and reports one CRMM_MISUSE_LEAK with their number and bytes. They are left alone.
 *
 * Stacks aside, it takes 72 KiB of host memory at first, and later up to 600 KiB, or 400 bytes for
 * each of the most allocations that were outstanding at a time.
 *
 * Thread-safety: safe. Threads do not wait for each other, nor write to one place, as long as each
 * is given addresses that it was given before; no lock is held while the upstream is called. A
 * forked child goes on from its parent's books.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_tracking_resource_adaptor_create(
    crmm_resource *upstream, const crmm_tracking_resource_adaptor_options *options,
    crmm_resource **out);

/**
 * Set the calling thread's label: what it allocates from now on, through any
 * tracking_resource_adaptor, carries it.
 *
 * @param label    any text, copied and kept to the end of the process, so use few different ones;
 *                 NULL: none
 * @param previous [out] the label until now, or NULL, for setting it again; may be NULL
 *
 * @retval CRMM_ERROR_OUT_OF_MEMORY no host memory for the text; the label is as before
 *
 * Thread-safety: safe; each thread has a label of its own, at first none.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_tracking_resource_adaptor_set_label(const char *label,
                                                                             const char **previous);

/* ---- what is outstanding ---- */

/**
 * Bytes outstanding, as they were asked for.
 *
 * @param adaptor a tracking_resource_adaptor; anything else is misuse and gives 0
 *
 * Thread-safety: safe; what they were at one moment during the call.
 */
CRMM_API size_t crmm_tracking_resource_adaptor_allocated_bytes(const crmm_resource *adaptor);

/**
 * Number of allocations outstanding.
 *
 * @param adaptor a tracking_resource_adaptor; anything else is misuse and gives 0
 *
 * Thread-safety: safe; what it was at one moment during the call.
 */
CRMM_API size_t crmm_tracking_resource_adaptor_outstanding_count(const crmm_resource *adaptor);

/**
 * What is outstanding, one line for each allocation in the addresses' order: address, size, and
 * what else is known; with stacks, one more line for each call, with symbols.
 *
 * @param adaptor a tracking_resource_adaptor; anything else is misuse and gives an empty text
 * @param text    [out] where the lines go, always NUL-terminated if `size` is not 0; may be NULL
 *                with `size` 0
 * @param size    bytes at `text`
 * @return length of the whole text without the NUL, as snprintf() does; at least `size` if it was
 *         cut. Where there is no host memory to list them, one line says so
 *
 * Thread-safety: safe; what was outstanding at one moment during the call.
 */
CRMM_API size_t crmm_tracking_resource_adaptor_outstanding_text(const crmm_resource *adaptor,
                                                                char *text, size_t size);

/**
 * Call a function for every allocation outstanding, in the addresses' order.
 *
 * @param adaptor   a tracking_resource_adaptor
 * @param visitor   see crmm_tracking_visitor; what it gives back meanwhile is visited all the same
 * @param user_data handed to `visitor`
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `adaptor` is NULL or of another class; `visitor` is NULL
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory to list them; nothing was visited
 *
 * Thread-safety: safe; what was outstanding at one moment during the call.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_tracking_resource_adaptor_visit(
    const crmm_resource *adaptor, crmm_tracking_visitor visitor, void *user_data);

/* ---- checkpoints ---- */

/**
 * Take a checkpoint, to ask later what was allocated after it and is still outstanding.
 *
 * @param adaptor    a tracking_resource_adaptor
 * @param checkpoint [out] names this moment, for the functions below; at least 1
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `adaptor` is NULL or of another class; NULL `checkpoint`
 *
 * Thread-safety: safe; an allocation that another thread is making may count as before or after.
 */
CRMM_API CRMM_NODISCARD crmm_status
crmm_tracking_resource_adaptor_checkpoint(crmm_resource *adaptor, uint64_t *checkpoint);

/**
 * Call a function for what was allocated between two checkpoints and is outstanding now, in the
 * addresses' order.
 *
 * @param adaptor   a tracking_resource_adaptor
 * @param from      a checkpoint of it, or CRMM_TRACKING_BEGIN
 * @param to        a later one of it, or CRMM_TRACKING_NOW
 * @param visitor   see crmm_tracking_visitor
 * @param user_data handed to `visitor`
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `adaptor` is NULL or of another class; `visitor` is NULL;
 *                                     `from` is later than `to`, or one of them has not been taken
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory to list them; nothing was visited
 *
 * Thread-safety: safe; what was outstanding at one moment during the call.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_tracking_resource_adaptor_visit_between(
    const crmm_resource *adaptor, uint64_t from, uint64_t to, crmm_tracking_visitor visitor,
    void *user_data);

/**
 * What was allocated between two checkpoints and is outstanding now, as
 * crmm_tracking_resource_adaptor_outstanding_text() writes it.
 *
 * @param adaptor a tracking_resource_adaptor; anything else is misuse and gives an empty text
 * @param from    a checkpoint of it, or CRMM_TRACKING_BEGIN
 * @param to      a later one of it, or CRMM_TRACKING_NOW; checkpoints that cannot be are misuse
 *                (CRMM_MISUSE_INVALID_ARGUMENT) and give an empty text
 * @param text    [out] where the lines go, always NUL-terminated if `size` is not 0; may be NULL
 *                with `size` 0
 * @param size    bytes at `text`
 * @return length of the whole text without the NUL, as snprintf() does
 *
 * Thread-safety: safe; what was outstanding at one moment during the call.
 */
CRMM_API size_t crmm_tracking_resource_adaptor_outstanding_text_between(
    const crmm_resource *adaptor, uint64_t from, uint64_t to, char *text, size_t size);

CRMM_END_DECLS

#endif
