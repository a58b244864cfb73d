/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CORE_LOG_H
#define CRMM_CORE_LOG_H

#include <stdbool.h>

#include <crmm/core/attributes.h>
#include <crmm/core/status.h>

CRMM_BEGIN_DECLS

/*
 * The library's own messages. (What a program allocates is logged by logging_resource_adaptor.)
 *
 * Messages below the level of the build (the Meson option `log_level`) are not compiled in; those
 * below the run-time level cost one predictable branch. Nothing is ever logged on the hot path of
 * an allocation.
 *
 * The environment is read once, at first use, and ignored in set-uid programs: CRMM_LOG_LEVEL
 * (trace, debug, info, warn, error, critical or off) and CRMM_DEBUG_LOG_FILE (truncated at first
 * use; standard error where it is not set).
 *
 * Thread-safety: all functions are safe; lines in a file are never mixed.
 */

/** How important a message is. Values are part of the ABI. */
typedef enum crmm_log_level {
    CRMM_LOG_LEVEL_TRACE = 0,
    CRMM_LOG_LEVEL_DEBUG = 1,
    CRMM_LOG_LEVEL_INFO = 2,
    CRMM_LOG_LEVEL_WARN = 3,
    CRMM_LOG_LEVEL_ERROR = 4,
    CRMM_LOG_LEVEL_CRITICAL = 5,
    CRMM_LOG_LEVEL_OFF = 6 /**< as a run-time level: nothing */
} crmm_log_level;

/**
 * Receives messages, on the thread that logs, with no lock of the library held; several threads may
 * be in it at a time. It may call the library, and a message logged meanwhile comes to it as well.
 *
 * @param level     of the message
 * @param message   one line without its end; valid until the callback returns
 * @param user_data what was given to crmm_log_set_callback()
 */
typedef void (*crmm_log_callback)(crmm_log_level level, const char *message, void *user_data);

/**
 * The run-time level: messages below it are dropped. CRMM_LOG_LEVEL_INFO by default.
 */
CRMM_API crmm_log_level crmm_log_get_level(void);

/**
 * Set the run-time level.
 *
 * @param level one of the enumerators; anything else is CRMM_ERROR_INVALID_ARGUMENT
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_log_set_level(crmm_log_level level);

/**
 * Send messages to a file, in place of where they go now.
 *
 * @param path the file, truncated
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `path` is NULL
 * @retval CRMM_ERROR_IO               the file cannot be opened; messages go where they went
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_log_set_file(const char *path);

/** Send messages to standard error, in place of where they go now. */
CRMM_API void crmm_log_set_stderr(void);

/**
 * Send messages to a function, in place of where they go now.
 *
 * @param callback  called for every message at or above the level; NULL is
 *                  CRMM_ERROR_INVALID_ARGUMENT
 * @param user_data handed to `callback`; not owned
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_log_set_callback(crmm_log_callback callback,
                                                          void *user_data);

/** Write out what a file sink has buffered. Messages of level error and above do so by themselves.
 */
CRMM_API void crmm_log_flush(void);

/**
 * Whether a message of this level would go anywhere.
 *
 * @param level of the message
 */
CRMM_API bool crmm_log_should_log(crmm_log_level level);

/**
 * Log a message: for resources written outside the library.
 *
 * @param level   trace to critical
 * @param message one line without its end; NULL is ignored
 */
CRMM_API void crmm_log_message(crmm_log_level level, const char *message);

CRMM_END_DECLS

#endif
