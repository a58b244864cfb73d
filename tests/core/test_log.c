/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/log.h>

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <crmm/internal/log.h>

#include "expect.h"

#include <criterion/redirect.h>

static struct {
    int count;
    crmm_log_level level;
    char text[600];
} seen;

static void record(crmm_log_level level, const char *message, void *user_data)
{
    (void)user_data;
    seen.count++;
    seen.level = level;
    (void)snprintf(seen.text, sizeof(seen.text), "%s", message);
}

static void record_all(void)
{
    expect_success(crmm_log_set_callback(record, NULL));
    expect_success(crmm_log_set_level(CRMM_LOG_LEVEL_TRACE));
}

Test(log, level_is_info_by_default)
{
    expect_equal(crmm_log_get_level(), CRMM_LOG_LEVEL_INFO);
    cr_assert(!crmm_log_should_log(CRMM_LOG_LEVEL_DEBUG));
    cr_assert(crmm_log_should_log(CRMM_LOG_LEVEL_INFO));
    cr_assert(!crmm_log_should_log(CRMM_LOG_LEVEL_OFF));
}

Test(log, drops_what_is_below_the_level)
{
    record_all();
    expect_success(crmm_log_set_level(CRMM_LOG_LEVEL_WARN));
    crmm_log_message(CRMM_LOG_LEVEL_INFO, "no");
    expect_equal(seen.count, 0);
    crmm_log_message(CRMM_LOG_LEVEL_WARN, "yes");
    expect_equal(seen.count, 1);
    expect_equal(seen.level, CRMM_LOG_LEVEL_WARN);
    expect_text(seen.text, "yes");
    expect_success(crmm_log_set_level(CRMM_LOG_LEVEL_OFF));
    crmm_log_message(CRMM_LOG_LEVEL_CRITICAL, "no");
    crmm_log_message(CRMM_LOG_LEVEL_OFF, "no");
    expect_equal(seen.count, 1);
}

Test(log, formats_inside_the_library_and_cuts)
{
    char wide[600];

    record_all();
    crmm_priv_log(CRMM_LOG_LEVEL_INFO, "%zu bytes at %s", (size_t)42, "here");
    expect_text(seen.text, "42 bytes at here");
    memset(wide, 'w', sizeof(wide) - 1);
    wide[sizeof(wide) - 1] = '\0';
    crmm_priv_log(CRMM_LOG_LEVEL_INFO, "%s", wide);
    expect_equal(strlen(seen.text), 511);
}

static int evaluated;

static int count_evaluation(void)
{
    return ++evaluated;
}

static void log_again(crmm_log_level level, const char *message, void *user_data)
{
    int *depth = user_data;

    (void)level;
    (void)message;
    if ((*depth)++ == 0) {
        crmm_log_message(CRMM_LOG_LEVEL_INFO, "from within");
        expect_success(crmm_log_set_level(CRMM_LOG_LEVEL_WARN));
        crmm_log_set_stderr();
    }
}

Test(log, a_callback_may_use_the_log_and_the_library)
{
    int depth = 0;

    expect_success(crmm_log_set_callback(log_again, &depth));
    crmm_log_message(CRMM_LOG_LEVEL_INFO, "first");
    expect_equal(depth, 2);
    expect_equal(crmm_log_get_level(), CRMM_LOG_LEVEL_WARN);
}

Test(log, does_not_evaluate_what_it_drops)
{
    record_all();
    LOG(CRMM_LOG_LEVEL_ERROR, "%d", count_evaluation());
    expect_equal(evaluated, 1);
    expect_success(crmm_log_set_level(CRMM_LOG_LEVEL_OFF));
    LOG(CRMM_LOG_LEVEL_ERROR, "%d", count_evaluation());
    expect_equal(evaluated, 1);
}

Test(log, refuses_bad_arguments)
{
    expect_failure(crmm_log_set_level((crmm_log_level)7), CRMM_ERROR_INVALID_ARGUMENT,
                   "7 is no level");
    expect_status(crmm_log_set_level((crmm_log_level)-1), CRMM_ERROR_INVALID_ARGUMENT);
    expect_failure(crmm_log_set_callback(NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "callback is NULL");
    expect_failure(crmm_log_set_file(NULL), CRMM_ERROR_INVALID_ARGUMENT, "path is NULL");
    record_all();
    crmm_log_message(CRMM_LOG_LEVEL_INFO, NULL);
    crmm_log_message((crmm_log_level)-1, "x");
    expect_equal(seen.count, 0);
}

Test(log, a_file_that_cannot_be_opened_changes_nothing)
{
    record_all();
    expect_failure(crmm_log_set_file("/nonexistent/folder/log"), CRMM_ERROR_IO,
                   "/nonexistent/folder/log");
    expect_equal(crmm_last_error()->native_code, 2);
    crmm_log_message(CRMM_LOG_LEVEL_INFO, "still here");
    expect_text(seen.text, "still here");
}

/* The content of a file, in static storage. */
static const char *content_of(const char *path)
{
    static char text[1024];
    FILE *file = fopen(path, "r");

    cr_assert(file != NULL);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    (void)fclose(file);
    return text;
}

static void expect_line(const char *line, const char *pattern)
{
    regex_t regex;

    cr_assert(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) == 0);
    cr_assert(regexec(&regex, line, 0, NULL, 0) == 0, "\"%s\" does not match %s", line, pattern);
    regfree(&regex);
}

Test(log, writes_lines_to_a_file)
{
    char path[] = "/tmp/crmm-log-XXXXXX";
    int descriptor = mkstemp(path);

    cr_assert(descriptor >= 0);
    (void)close(descriptor);
    expect_success(crmm_log_set_file(path));
    crmm_log_message(CRMM_LOG_LEVEL_WARN, "one line");
    crmm_log_flush();
    expect_line(content_of(path), "^\\[ *[0-9]+\\]\\[[0-2][0-9]:[0-5][0-9]:[0-6][0-9]:[0-9]{6}\\]"
                                  "\\[warn  \\] one line\n$");
    crmm_log_message(CRMM_LOG_LEVEL_ERROR, "flushed by itself");
    cr_assert(strstr(content_of(path), "[error ] flushed by itself\n") != NULL);
    crmm_log_set_stderr();
    (void)unlink(path);
}

Test(log, goes_to_standard_error_by_default, .init = cr_redirect_stderr)
{
    crmm_log_message(CRMM_LOG_LEVEL_INFO, "to the error stream");
    (void)fflush(stderr);
    FILE *stream = cr_get_redirected_stderr();
    char text[256] = "";
    cr_assert(fgets(text, sizeof(text), stream) != NULL);
    cr_assert(strstr(text, "[info  ] to the error stream") != NULL, "\"%s\"", text);
}

Test(log, reads_the_environment_at_first_use)
{
    char path[] = "/tmp/crmm-log-XXXXXX";
    int descriptor = mkstemp(path);

    cr_assert(descriptor >= 0);
    (void)close(descriptor);
    cr_assert(setenv("CRMM_LOG_LEVEL", "ERROR", 1) == 0);
    cr_assert(setenv("CRMM_DEBUG_LOG_FILE", path, 1) == 0);
    expect_equal(crmm_log_get_level(), CRMM_LOG_LEVEL_ERROR);
    crmm_log_message(CRMM_LOG_LEVEL_WARN, "dropped");
    crmm_log_message(CRMM_LOG_LEVEL_ERROR, "kept");
    cr_assert(strstr(content_of(path), "kept") != NULL);
    cr_assert(strstr(content_of(path), "dropped") == NULL);
    cr_assert(setenv("CRMM_LOG_LEVEL", "trace", 1) == 0);
    expect_equal(crmm_log_get_level(), CRMM_LOG_LEVEL_ERROR); /* read once */
    (void)unlink(path);
}
