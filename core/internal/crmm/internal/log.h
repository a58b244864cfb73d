/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_LOG_H
#define CRMM_INTERNAL_LOG_H

#include <crmm/core/log.h>

/* The lowest level that is compiled in; the build sets it from the option `log_level`. */
#ifndef CRMM_LOG_ACTIVE_LEVEL
#define CRMM_LOG_ACTIVE_LEVEL CRMM_LOG_LEVEL_INFO
#endif

/*
 * Log with printf's format. A macro, so that a level below the build's costs nothing and one below
 * the run-time level does not evaluate its arguments.
 */
#define LOG(level, ...)                                                                 \
    do {                                                                                \
        if ((int)(level) >= (int)CRMM_LOG_ACTIVE_LEVEL && crmm_log_should_log(level)) { \
            crmm_priv_log(level, __VA_ARGS__);                                          \
        }                                                                               \
    } while (0)

__attribute__((format(printf, 2, 3))) void crmm_priv_log(crmm_log_level level, const char *format,
                                                         ...);

#endif
