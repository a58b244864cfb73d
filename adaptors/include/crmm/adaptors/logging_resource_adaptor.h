/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_LOGGING_RESOURCE_ADAPTOR_H
#define CRMM_ADAPTORS_LOGGING_RESOURCE_ADAPTOR_H

#include <stdbool.h>

#include <crmm/core/options.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * Takes a part of a log, in place of a file. It is called on threads that use the adaptor, by the
 * call that makes more rows wait than may, by flush and by the last release; by one thread at a
 * time, never by a thread of the library's own. Calls it makes to the adaptor are logged, but not
 * before it has returned.
 *
 * @param data      whole rows of text, or whole records of the binary form; valid until it returns
 * @param size      their bytes
 * @param user_data what the options had
 * @return whether they were taken; after false the log ends, as for a file that cannot be written
 */
typedef bool (*crmm_logging_write)(const char *data, size_t size, void *user_data);

/** Options of crmm_logging_resource_adaptor_create(); see crmm/core/options.h. */
typedef struct crmm_logging_resource_adaptor_options {
    size_t struct_size;       /**< sizeof the struct */
    const char *file_name;    /**< the file, truncated; NULL: CRMM_LOG_FILE in the environment, then
                                   RMM_LOG_FILE, both ignored in set-uid programs. %p in it stands
                                   for the process id, %d for the device's ordinal, %u for its UUID
                                   as nvidia-smi prints it (GPU-...), and %% for % */
    size_t auto_flush;        /**< how many rows make the call that adds the last of them write out
                                   all that wait; 1: each row is written before its call returns;
                                   0: the buffer's size, and a thread writes the file */
    crmm_logging_write write; /**< a function to write to in place of a file; must be good until the
                                   last release */
    void *user_data;          /**< handed to `write`; not owned */
    size_t binary;            /**< 1: the compact binary form, for long runs (crmm-replay reads it
                                   and converts it to text); 0: text */
} crmm_logging_resource_adaptor_options;

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_logging_resource_adaptor_options_init(
    crmm_logging_resource_adaptor_options *options);

/**
 * Create an adaptor that passes every request on and writes a row about it: after an allocation,
 * and before a free is passed on, so that the row of a free precedes any row that has its address
 * again. It has the upstream's properties and device.
 *
 * Text is that of RMM's logging adaptor: the line `Thread,Time,Action,Pointer,Size,Stream`, then a
 * row an event, such as `4711,23:59:59.123456,allocate,0x7f0000000000,1024,0x1`. Thread is the
 * system's thread id, Time is local, Action is `allocate`, `allocate failure` or `free`, Pointer is
 * `(nil)` for a failure, Size is as it was asked for, and Stream is the handle, 0 for the default
 * stream and for calls without a stream. Requests for 0 bytes reach no adaptor and have no row.
 *
 * A call stores its row in a buffer of 16384, without a lock or a system call, whatever thread it
 * is on. They are turned into text and written when a quarter of the buffer has filled, by a thread
 * of the adaptor's own, whose signals are blocked; that is only there with a file and `auto_flush`
 * 0. A call that finds the buffer full writes it out itself: no row is dropped. Rows are also
 * written by crmm_logging_resource_adaptor_flush(), by the last release and, into a file, when the
 * program exits, even if it holds the adaptor then. A program that crashes loses what waits in the
 * buffer: at most 16384 rows, or fewer than `auto_flush`, and those of calls under way.
 *
 * crmm_deallocate_ptr() is CRMM_MISUSE_UNSUPPORTED: the row of a free has the block's size, which
 * no upstream can be asked for, and a log without it could not be replayed.
 *
 * Where a row cannot be written the log ends: that is logged once as an error, flush returns it,
 * and allocations go on. A forked child passes requests on and writes nothing; an adaptor that it
 * makes itself is like any other. Two adaptors must not write to one file.
 *
 * @param upstream where memory comes from; retained
 * @param options  NULL for all defaults
 * @param out      [out] the adaptor, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `upstream` or `out`; `file_name` with `write`; neither
 * of them nor a file in the environment; an unknown escape in the file's name; a flag that is not 0
 * or 1; a wrong struct_size
 * @retval CRMM_ERROR_UNSUPPORTED      an option of a newer version is set
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the adaptor
 * @retval CRMM_ERROR_CUDA             CUDA cannot tell the device that %d or %u in the name ask for
 * @retval CRMM_ERROR_FORKED           the same in a forked child of a process that used CUDA
 * @retval CRMM_ERROR_IO               the file cannot be opened, or the first line not be written;
 *                                     errno is the native code
 *
 * Thread-safety: safe. Rows of one thread are in its order, rows are never mixed. Not for signal
 * handlers.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_logging_resource_adaptor_create(
    crmm_resource *upstream, const crmm_logging_resource_adaptor_options *options,
    crmm_resource **out);

/**
 * Write out the rows of all calls that have returned. In a forked child it does nothing.
 *
 * @param adaptor a logging_resource_adaptor
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `adaptor` is NULL or of another class
 * @retval CRMM_ERROR_IO               rows could not be written, now or earlier; errno is the
 * native code, and the message says how many are lost
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_logging_resource_adaptor_flush(crmm_resource *adaptor);

CRMM_END_DECLS

#endif
