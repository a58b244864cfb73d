/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/log.h>

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/lock.h>
#include <crmm/internal/validate.h>

static const char *const level_names[] = {"trace", "debug",    "info", "warn",
                                          "error", "critical", "off"};

enum { LEVELS = sizeof(level_names) / sizeof(level_names[0]) };

/* The run-time level; read without the lock. */
static int level = CRMM_LOG_LEVEL_INFO;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Where messages go: a callback, else a file, else standard error. */
static crmm_priv_lock lock = CRMM_PRIV_LOCK_INITIALIZER;
static FILE *file;
static crmm_log_callback callback;
static void *callback_data;

/* ---- set-up ---- */

/* Replace the sink; the file that was one, to be closed. */
static FILE *replace_sink(FILE *new_file, crmm_log_callback new_callback, void *user_data)
{
    crmm_priv_lock_acquire(&lock);
    FILE *old = file;
    file = new_file;
    callback = new_callback;
    callback_data = user_data;
    crmm_priv_lock_release(&lock);
    return old;
}

static void close_file(FILE *old)
{
    if (old != NULL) {
        (void)fclose(old);
    }
}

static void read_environment(void)
{
    const char *name = crmm_priv_environment("CRMM_LOG_LEVEL");
    for (int i = 0; name != NULL && i < LEVELS; i++) {
        if (strcasecmp(name, level_names[i]) == 0) {
            __atomic_store_n(&level, i, __ATOMIC_RELAXED);
        }
    }

    const char *path = crmm_priv_environment("CRMM_DEBUG_LOG_FILE");
    if (path != NULL && path[0] != '\0') {
        FILE *opened = fopen(path, "we");
        if (opened != NULL) {
            close_file(replace_sink(opened, NULL, NULL));
        } else {
            /* There is no call to fail; the messages still go somewhere. */
            (void)fprintf(stderr, "crmm: CRMM_DEBUG_LOG_FILE: cannot open %s: %s\n", path,
                          strerror(errno));
        }
    }
}

static void set_up(void)
{
    (void)pthread_once(&once, read_environment);
}

/* ---- level ---- */

crmm_log_level crmm_log_get_level(void)
{
    set_up();
    return (crmm_log_level)__atomic_load_n(&level, __ATOMIC_RELAXED);
}

crmm_status crmm_log_set_level(crmm_log_level new_level)
{
    if ((int)new_level < 0 || (int)new_level >= LEVELS) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_log_set_level: %d is no level",
                    (int)new_level);
    }
    set_up();
    __atomic_store_n(&level, (int)new_level, __ATOMIC_RELAXED);
    return CRMM_SUCCESS;
}

bool crmm_log_should_log(crmm_log_level message_level)
{
    return message_level >= crmm_log_get_level() && (int)message_level < CRMM_LOG_LEVEL_OFF;
}

/* ---- sinks ---- */

crmm_status crmm_log_set_file(const char *path)
{
    if (path == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_log_set_file: path is NULL");
    }
    set_up();
    FILE *opened = fopen(path, "we");
    if (opened == NULL) {
        int code = errno;
        return FAIL(CRMM_ERROR_IO, code, "crmm_log_set_file: cannot open %s: %s", path,
                    strerror(code));
    }
    close_file(replace_sink(opened, NULL, NULL));
    return CRMM_SUCCESS;
}

void crmm_log_set_stderr(void)
{
    set_up();
    close_file(replace_sink(NULL, NULL, NULL));
}

crmm_status crmm_log_set_callback(crmm_log_callback new_callback, void *user_data)
{
    if (new_callback == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_log_set_callback: callback is NULL");
    }
    set_up();
    close_file(replace_sink(NULL, new_callback, user_data));
    return CRMM_SUCCESS;
}

void crmm_log_flush(void)
{
    crmm_priv_lock_acquire(&lock);
    if (file != NULL) {
        (void)fflush(file);
    }
    crmm_priv_lock_release(&lock);
}

/* ---- messages ---- */

/* One line: thread, local time of day in microseconds, level, text; the lock is held. */
static void write_line(crmm_log_level message_level, const char *message)
{
    FILE *target = file != NULL ? file : stderr;
    struct timeval now;
    struct tm day;

    (void)gettimeofday(&now, NULL);
    (void)localtime_r(&now.tv_sec, &day);
    (void)fprintf(target, "[%6ld][%02d:%02d:%02d:%06ld][%-6s] %s\n", (long)syscall(SYS_gettid),
                  day.tm_hour, day.tm_min, day.tm_sec, (long)now.tv_usec,
                  level_names[message_level], message);
    if (message_level >= CRMM_LOG_LEVEL_ERROR) {
        (void)fflush(target);
    }
}

void crmm_log_message(crmm_log_level message_level, const char *message)
{
    if (message == NULL || (int)message_level < 0 || !crmm_log_should_log(message_level)) {
        return;
    }
    crmm_priv_lock_acquire(&lock);
    crmm_log_callback current = callback;
    void *data = callback_data;
    if (current == NULL) {
        write_line(message_level, message);
    }
    crmm_priv_lock_release(&lock);

    /* With no lock held: it may log, or use the library otherwise. */
    if (current != NULL) {
        current(message_level, message, data);
    }
}

void crmm_priv_log(crmm_log_level message_level, const char *format, ...)
{
    char message[512];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    crmm_log_message(message_level, message);
}
