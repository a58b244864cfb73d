/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/logging_resource_adaptor.h>

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <crmm/containers/device_buffer.h>
#include <crmm/core/log.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)
#define HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

/* ---- a function to log to ---- */

typedef struct sink {
    char text[4 << 20];
    size_t length;
    size_t calls;
    bool refuse;           /* from now on */
    crmm_resource *use;    /* allocates from it when it is called */
    crmm_resource *failed; /* asks it for too much, which leaves an error record */
} sink;

static sink written;

static bool take(const char *data, size_t size, void *user_data)
{
    sink *to = user_data;
    void *ptr = NULL;

    to->calls++;
    if (to->refuse) {
        return false;
    }
    cr_assert(to->length + size < sizeof(to->text));
    memcpy(to->text + to->length, data, size);
    to->length += size;
    to->text[to->length] = '\0';
    if (to->use != NULL) {
        cr_assert(crmm_allocate_sync(to->use, 8, 8, &ptr) == CRMM_SUCCESS);
        crmm_deallocate_sync(to->use, ptr, 8, 8);
        cr_assert(crmm_logging_resource_adaptor_flush(to->use) == CRMM_SUCCESS);
    }
    if (to->failed != NULL) {
        cr_assert(crmm_allocate_sync(to->failed, SIZE_MAX, 8, &ptr) != CRMM_SUCCESS);
        errno = EBUSY;
    }
    return true;
}

static mock_resource upstream;

/* An adaptor over a mock that writes each row to `written` before its call returns. */
static crmm_resource *make(void)
{
    crmm_resource *made = NULL;

    mock_resource_init(&upstream, ALL);
    expect_success(crmm_logging_resource_adaptor_create(&upstream.base,
                                                        CRMM_OPTIONS(crmm_logging_resource_adaptor,
                                                                     .auto_flush = 1, .write = take,
                                                                     .user_data = &written),
                                                        &made));
    return made;
}

/* ---- a folder of the test's own ---- */

static char folder[64];
static char path[128];

static const char *in_folder(const char *name)
{
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void make_folder(void)
{
    (void)strcpy(folder, "/tmp/crmm-logging-XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
    cr_assert(unsetenv("CRMM_LOG_FILE") == 0 && unsetenv("RMM_LOG_FILE") == 0);
    mock_resource_init(&upstream, ALL);
}

static void remove_folder(void)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    cr_assert(system(command) == 0);
}

/* A file's text; NULL where there is none. Lives until the next call. */
static const char *contents(const char *name)
{
    static char text[4 << 20];
    FILE *file = fopen(name, "r");

    if (file == NULL) {
        return NULL;
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    (void)fclose(file);
    return text;
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++) {
        count += *text == '\n' ? 1 : 0;
    }
    return count;
}

static crmm_resource *make_file(const char *name, size_t auto_flush)
{
    crmm_resource *made = NULL;
    expect_success(crmm_logging_resource_adaptor_create(
        &upstream.base,
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .file_name = name, .auto_flush = auto_flush),
        &made));
    return made;
}

static void use_once(crmm_resource *mr)
{
    void *ptr = NULL;
    expect_success(crmm_allocate_sync(mr, 64, 16, &ptr));
    crmm_deallocate_sync(mr, ptr, 64, 16);
}

TestSuite(logging_resource_adaptor, .init = make_folder, .fini = remove_folder);

/* ---- what it is ---- */

Test(logging_resource_adaptor, looks_like_its_upstream)
{
    char text[256];
    char expected[256];

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource_bind_device(&upstream.base, 2);
    crmm_resource *mr = make_file(in_folder("log.csv"), 0);
    expect_text(crmm_resource_name(mr), "logging_resource_adaptor");
    expect_equal(crmm_resource_properties(mr), CRMM_HOST_ACCESSIBLE);
    expect_equal(crmm_resource_device(mr), 2);
    cr_assert(crmm_resource_upstream(mr) == &upstream.base);
    (void)snprintf(expected, sizeof(expected),
                   "logging_resource_adaptor (to %s) over mock_resource", path);
    expect_equal(crmm_resource_describe(mr, text, sizeof(text)), strlen(expected));
    expect_text(text, expected);
    expect_equal(crmm_resource_describe(mr, text, 12), strlen(expected));
    expect_text(text, "logging_res");
    crmm_resource_release(&mr);

    mr = make();
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "logging_resource_adaptor (to a function) over mock_resource");
    crmm_resource_release(&mr);
}

Test(logging_resource_adaptor, holds_its_upstream_and_is_equal_to_itself_only)
{
    bool destroyed = false;
    crmm_resource *first = make();
    crmm_resource *dropped = &upstream.base;
    crmm_resource *second = NULL;

    upstream.destroyed = &destroyed;
    expect_success(crmm_logging_resource_adaptor_create(
        &upstream.base,
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .write = take, .user_data = &written),
        &second));
    crmm_resource_release(&dropped);
    cr_assert(crmm_resource_is_equal(first, first));
    cr_assert(!crmm_resource_is_equal(first, second));
    crmm_resource_release(&second);
    cr_assert(!destroyed);
    crmm_resource_release(&first);
    cr_assert(destroyed);
}

/* User report 40: a buffer that outlived the adaptor it was made through crashed. */
Test(logging_resource_adaptor, lives_as_long_as_what_was_allocated_through_it)
{
    crmm_device_buffer buffer;

    need_devices(1);
    crmm_resource *mr = make();
    expect_success(crmm_device_buffer_init(&buffer, 64, NULL, mr));
    crmm_resource_release(&mr);
    crmm_device_buffer_finish(&buffer);
    expect_equal(upstream.live, 0);
    expect_equal(count_lines(written.text), 3);
    cr_assert(strstr(written.text, ",free,") != NULL);
}

/* ---- rows ---- */

/* Whether a time is near now and formatted as RMM's. */
static void expect_time(const char *text)
{
    unsigned hour = 0;
    unsigned minute = 0;
    unsigned second = 0;
    unsigned micro = 0;
    struct timespec now = {0}; /* time()'s clock is some milliseconds late */
    struct tm local;

    cr_assert(clock_gettime(CLOCK_REALTIME, &now) == 0);
    cr_assert(strlen(text) == 15 && strspn(text, "0123456789:.") == 15, "%s", text);
    cr_assert(sscanf(text, "%2u:%2u:%2u.%6u", &hour, &minute, &second, &micro) == 4, "%s", text);
    (void)localtime_r(&now.tv_sec, &local);
    long apart = (long)(local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec) -
                 (long)(hour * 3600 + minute * 60 + second);
    cr_assert((apart + 86400) % 86400 < 100, "%s is %ld s ago", text, apart);
}

/* The next line of a log: its time is checked, the rest is given. */
static const char *next_row(const char **text)
{
    static char row[128];
    char clock[32];
    char rest[96];
    long thread = 0;
    int length = 0;

    cr_assert(sscanf(*text, "%ld,%31[^,],%95[^\n]\n%n", &thread, clock, rest, &length) == 3, "%s",
              *text);
    expect_equal(thread, gettid());
    expect_time(clock);
    (void)snprintf(row, sizeof(row), "%s", rest);
    *text += length;
    return row;
}

static void expect_row(const char **text, const char *action, const void *ptr, size_t bytes,
                       const char *stream)
{
    char expected[128];
    (void)snprintf(expected, sizeof(expected), "%s,%p,%zu,%s", action, ptr, bytes, stream);
    expect_text(next_row(text), expected);
}

Test(logging_resource_adaptor, writes_the_rows_of_rmm)
{
    crmm_resource *mr = make();
    void *a = NULL;
    void *b = NULL;
    void *c = NULL;
    void *d = NULL;

    expect_text(written.text, HEADER);
    expect_success(crmm_allocate(mr, (crmm_stream)(uintptr_t)0x55d0c0ffee10, 100, 256, &a));
    expect_success(crmm_allocate(mr, CRMM_STREAM_LEGACY, 42, 16, &b));
    expect_success(crmm_allocate(mr, CRMM_STREAM_PER_THREAD, 1, 1, &c));
    expect_success(crmm_allocate(mr, NULL, 4096, 64, &d));
    crmm_deallocate(mr, NULL, b, 42, 16);
    crmm_deallocate(mr, (crmm_stream)(uintptr_t)0x40, a, 100, 256);
    crmm_deallocate(mr, NULL, c, 1, 1);
    crmm_deallocate(mr, NULL, d, 4096, 64);

    const char *text = written.text + strlen(HEADER);
    expect_row(&text, "allocate", a, 100, "0x55d0c0ffee10");
    expect_row(&text, "allocate", b, 42, "0x1");
    expect_row(&text, "allocate", c, 1, "0x2");
    expect_row(&text, "allocate", d, 4096, "0");
    expect_row(&text, "free", b, 42, "0");
    expect_row(&text, "free", a, 100, "0x40");
    expect_row(&text, "free", c, 1, "0");
    expect_row(&text, "free", d, 4096, "0");
    expect_text(text, "");
    crmm_resource_release(&mr);
    expect_text(text, "");
}

Test(logging_resource_adaptor, passes_requests_on_as_they_are)
{
    crmm_resource *mr = make();
    crmm_stream stream = (crmm_stream)(uintptr_t)0x40;
    void *a = NULL;
    void *b = NULL;

    expect_success(crmm_allocate(mr, stream, 5000, 64, &a));
    cr_assert(upstream.last_allocate.stream == stream && !upstream.last_allocate.sync);
    expect_equal(upstream.last_allocate.bytes, 5000);
    expect_equal(upstream.last_allocate.alignment, 64);
    expect_success(crmm_allocate_sync(mr, 300, 32, &b));
    cr_assert(upstream.last_allocate.sync);
    crmm_deallocate(mr, stream, a, 5000, 64);
    cr_assert(upstream.last_deallocate.stream == stream && !upstream.last_deallocate.sync);
    cr_assert(upstream.last_deallocate.ptr == a && upstream.last_deallocate.bytes == 5000);
    expect_equal(upstream.last_deallocate.alignment, 64);
    crmm_deallocate_sync(mr, b, 300, 32);
    cr_assert(upstream.last_deallocate.sync && upstream.last_deallocate.ptr == b);

    const char *text = written.text + strlen(HEADER);
    expect_row(&text, "allocate", a, 5000, "0x40");
    expect_row(&text, "allocate", b, 300, "0");
    expect_row(&text, "free", a, 5000, "0x40");
    expect_row(&text, "free", b, 300, "0");
    crmm_resource_release(&mr);
}

/* User report 70: the log stopped before the allocation that failed. */
Test(logging_resource_adaptor, failures_have_a_row)
{
    crmm_resource *mr = make();
    void *ptr = &mr;

    upstream.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_failure(crmm_allocate(mr, CRMM_STREAM_LEGACY, (size_t)1 << 40, 256, &ptr),
                   CRMM_ERROR_OUT_OF_MEMORY, "the mock was told to fail");
    upstream.fail_with = CRMM_SUCCESS;
    upstream.give_null = true;
    expect_status(crmm_allocate_sync(mr, 77, 16, &ptr), CRMM_ERROR_BAD_ALLOC);
    cr_assert(ptr == &mr);

    const char *text = written.text + strlen(HEADER);
    expect_text(next_row(&text), "allocate failure,(nil),1099511627776,0x1");
    expect_text(next_row(&text), "allocate failure,(nil),77,0");
    expect_text(text, "");
    crmm_resource_release(&mr);
}

Test(logging_resource_adaptor, what_never_reaches_it_has_no_row)
{
    crmm_resource *mr = make();
    void *ptr = &mr;

    expect_success(crmm_allocate(mr, NULL, 0, 16, &ptr));
    cr_assert(ptr == NULL);
    crmm_deallocate(mr, NULL, NULL, 0, 16);
    expect_status(crmm_allocate(mr, NULL, SIZE_MAX, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_allocate(mr, NULL, 8, 3, &ptr), CRMM_ERROR_INVALID_ARGUMENT);
    expect_text(written.text, HEADER);
    expect_equal(upstream.allocations, 0);
    crmm_resource_release(&mr);
}

/* A log whose frees have no sizes could not be replayed. */
Test(logging_resource_adaptor, refuses_frees_by_address_alone)
{
    crmm_resource *mr = make();
    void *ptr = NULL;

    misuse_recorder_start();
    expect_success(crmm_allocate(mr, NULL, 64, 16, &ptr));
    size_t rows = count_lines(written.text);
    expect_misuse(crmm_deallocate_ptr(mr, NULL, ptr), CRMM_MISUSE_UNSUPPORTED,
                  "logging_resource_adaptor keeps no sizes");
    expect_equal(count_lines(written.text), rows);
    expect_equal(upstream.live, 1); /* left alone */
    crmm_deallocate(mr, NULL, ptr, 64, 16);
    crmm_resource_release(&mr);
}

Test(logging_resource_adaptor, over_a_sync_only_resource_is_sync_only)
{
    void *ptr = &upstream;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource *mr = make_file(in_folder("log.csv"), 1);
    expect_failure(crmm_allocate(mr, NULL, 8, 8, &ptr), CRMM_ERROR_PROPERTY,
                   "logging_resource_adaptor is not stream-ordered");
    use_once(mr);
    crmm_resource_release(&mr);
    expect_equal(count_lines(contents(path)), 3);
}

Test(logging_resource_adaptor, times_are_local)
{
    cr_assert(setenv("TZ", "CRM-05:45", 1) == 0);
    tzset();
    crmm_resource *mr = make();
    use_once(mr);
    const char *text = written.text + strlen(HEADER);
    (void)next_row(&text); /* compares it with the local time */
    crmm_resource_release(&mr);
}

/* ---- when rows are written ---- */

Test(logging_resource_adaptor, auto_flush_1_writes_each_row_before_its_call_returns)
{
    const char *file = in_folder("log.csv");
    crmm_resource *mr = make_file(file, 1);
    void *ptr = NULL;

    expect_text(contents(file), HEADER);
    expect_success(crmm_allocate(mr, NULL, 10, 16, &ptr));
    expect_equal(count_lines(contents(file)), 2);
    crmm_deallocate(mr, NULL, ptr, 10, 16);
    expect_equal(count_lines(contents(file)), 3);
    crmm_resource_release(&mr);
    expect_equal(count_lines(contents(file)), 3);
}

Test(logging_resource_adaptor, auto_flush_bounds_how_many_rows_wait)
{
    const char *file = in_folder("log.csv");
    crmm_resource *mr = make_file(file, 4);

    for (size_t rows = 2; rows < 40; rows += 2) {
        use_once(mr);
        expect_equal(count_lines(contents(file)), 1 + rows / 4 * 4);
    }
    use_once(mr);
    use_once(mr);
    crmm_resource_release(&mr);
    expect_equal(count_lines(contents(file)), 43);
}

Test(logging_resource_adaptor, rows_wait_for_flush_or_the_last_release)
{
    const char *file = in_folder("log.csv");
    crmm_resource *mr = make_file(file, 0);

    use_once(mr);
    expect_text(contents(file), HEADER);
    expect_success(crmm_logging_resource_adaptor_flush(mr));
    expect_equal(count_lines(contents(file)), 3);
    use_once(mr);
    crmm_resource *second = crmm_resource_retain(mr);
    crmm_resource_release(&mr);
    expect_equal(count_lines(contents(file)), 3);
    crmm_resource_release(&second);
    expect_equal(count_lines(contents(file)), 5);
}

/* Its own thread writes while the program goes on, and what it has not written is waited for. */
Test(logging_resource_adaptor, a_full_buffer_loses_nothing)
{
    enum { CALLS = 20000 };
    const char *file = in_folder("log.csv");
    crmm_resource *mr = make_file(file, 0);

    for (int i = 0; i < CALLS; i++) {
        use_once(mr);
    }
    while (count_lines(contents(file)) == 1) {
        (void)usleep(1000);
    }
    crmm_resource_release(&mr);
    expect_equal(count_lines(contents(file)), 1 + 2 * CALLS);

    /* Without a thread: the call that fills the buffer writes. */
    expect_success(crmm_logging_resource_adaptor_create(
        &upstream.base,
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .write = take, .user_data = &written), &mr));
    for (int i = 0; i < CALLS; i++) {
        use_once(mr);
    }
    cr_assert(written.calls > 1 && count_lines(written.text) > CALLS / 2);
    crmm_resource_release(&mr);
    expect_equal(count_lines(written.text), 1 + 2 * CALLS);
}

Test(logging_resource_adaptor, the_function_may_use_the_adaptor)
{
    crmm_resource *mr = make();

    written.use = mr;
    use_once(mr);
    written.use = NULL;
    expect_equal(upstream.live, 0);
    expect_success(crmm_logging_resource_adaptor_flush(mr));
    /* Twice two rows of its own calls, one pair for each time that it was called. */
    expect_equal(count_lines(written.text), 1 + 2 + 4);
    crmm_resource_release(&mr);
}

Test(logging_resource_adaptor, the_function_leaves_no_error_behind)
{
    crmm_resource *mr = make();
    void *ptr = NULL;

    written.failed = &upstream.base;
    errno = 0;
    expect_success(crmm_allocate_sync(mr, 8, 8, &ptr));
    expect_equal(errno, 0);
    expect_equal(crmm_last_error()->status, CRMM_SUCCESS);
    crmm_deallocate_sync(mr, ptr, 8, 8);
    upstream.fail_with = CRMM_ERROR_BAD_ALLOC;
    expect_failure(crmm_allocate_sync(mr, 8, 8, &ptr), CRMM_ERROR_BAD_ALLOC,
                   "the mock was told to fail");
    crmm_resource_release(&mr);
}

/* ---- names ---- */

static void expect_file(const char *name, const char *expected)
{
    crmm_resource *mr = make_file(name, 0);
    crmm_resource_release(&mr);
    cr_assert(contents(expected) != NULL, "%s is not there", expected);
    cr_assert(unlink(expected) == 0);
}

static void expect_uuid(char *text, const unsigned char *bytes)
{
    text += sprintf(text, "GPU-");
    for (int i = 0; i < 16; i++) {
        text += sprintf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
    }
}

Test(logging_resource_adaptor, names_take_the_process_and_percent)
{
    char name[128];
    char expected[128];

    (void)snprintf(name, sizeof(name), "%s/%%p-%%%%d%%p.csv", folder);
    (void)snprintf(expected, sizeof(expected), "%s/%d-%%d%d.csv", folder, getpid(), getpid());
    expect_file(name, expected);
}

Test(logging_resource_adaptor, names_take_the_device)
{
    char name[128];
    char expected[256];
    char uuid[64];
    int device = -1;
    struct cudaDeviceProp properties;

    need_devices(1);
    cuda(cudaGetDevice(&device));
    cuda(cudaGetDeviceProperties(&properties, device));
    expect_uuid(uuid, (const unsigned char *)properties.uuid.bytes);
    (void)snprintf(name, sizeof(name), "%s/%%d.%%u", folder);
    (void)snprintf(expected, sizeof(expected), "%s/%d.%s", folder, device, uuid);
    expect_file(name, expected);
}

Test(logging_resource_adaptor, the_upstreams_device_comes_before_the_current_one)
{
    char name[128];

    crmm_resource_bind_device(&upstream.base, 7);
    (void)snprintf(name, sizeof(name), "%s/dev%%d.csv", folder);
    expect_file(name, in_folder("dev7.csv"));
}

Test(logging_resource_adaptor, refuses_names_that_mean_nothing)
{
    crmm_resource *mr = NULL;

    expect_failure(crmm_logging_resource_adaptor_create(
                       &upstream.base,
                       CRMM_OPTIONS(crmm_logging_resource_adaptor, .file_name = "/tmp/a%x.csv"),
                       &mr),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "logging_resource_adaptor: %x in the file name /tmp/a%x.csv is none of %p, %d, "
                   "%u and %%");
    expect_failure(crmm_logging_resource_adaptor_create(
                       &upstream.base,
                       CRMM_OPTIONS(crmm_logging_resource_adaptor, .file_name = "/tmp/a%"), &mr),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "the file name /tmp/a% ends in %; %% stands for it");
    cr_assert(mr == NULL);
}

Test(logging_resource_adaptor, the_environment_names_a_file)
{
    crmm_resource *mr = NULL;

    expect_failure(crmm_logging_resource_adaptor_create(&upstream.base, NULL, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "options->file_name is NULL, and neither CRMM_LOG_FILE nor RMM_LOG_FILE is set");
    cr_assert(setenv("CRMM_LOG_FILE", "", 1) == 0);
    cr_assert(setenv("RMM_LOG_FILE", in_folder("rmm.csv"), 1) == 0);
    expect_file(NULL, path);
    cr_assert(setenv("CRMM_LOG_FILE", in_folder("crmm.csv"), 1) == 0);
    expect_file(NULL, path);
    expect_file(in_folder("given.csv"), path);
    cr_assert(contents(in_folder("crmm.csv")) == NULL);
    cr_assert(contents(in_folder("rmm.csv")) == NULL);
}

Test(logging_resource_adaptor, truncates_its_file_and_follows_the_umask)
{
    const char *file = in_folder("log.csv");
    FILE *before = fopen(file, "w");
    struct stat state;

    cr_assert(before != NULL);
    (void)fprintf(before, "a line that was there before, longer than the header of a log\n");
    (void)fclose(before);
    crmm_resource *mr = make_file(file, 0);
    crmm_resource_release(&mr);
    expect_text(contents(file), HEADER);
    cr_assert(unlink(file) == 0);
    (void)umask(022);
    mr = make_file(file, 0);
    crmm_resource_release(&mr);
    cr_assert(stat(file, &state) == 0);
    expect_equal(state.st_mode & 0777, 0644);
}

/* ---- what cannot be ---- */

Test(logging_resource_adaptor, refuses_bad_arguments_of_create)
{
    crmm_resource *mr = NULL;
    crmm_logging_resource_adaptor_options options;

    crmm_logging_resource_adaptor_options_init(&options);
    expect_equal(options.struct_size, sizeof(options));
    options.write = take;
    options.user_data = &written;
    expect_failure(crmm_logging_resource_adaptor_create(NULL, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "logging_resource_adaptor: upstream is NULL");
    expect_failure(crmm_logging_resource_adaptor_create(&upstream.base, &options, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    options.file_name = in_folder("log.csv");
    expect_failure(crmm_logging_resource_adaptor_create(&upstream.base, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "options->file_name and options->write are both set");
    cr_assert(contents(path) == NULL);
    options.file_name = NULL;
    options.binary = 2;
    expect_failure(crmm_logging_resource_adaptor_create(&upstream.base, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "options->binary is 2, not 0 or 1");
    options.struct_size = 3;
    expect_failure(crmm_logging_resource_adaptor_create(&upstream.base, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "struct_size is 3");
    cr_assert(mr == NULL);
    expect_equal(written.calls, 0);
    expect_equal(upstream.base.reserved[0], 1); /* nobody holds it */
}

Test(logging_resource_adaptor, flush_refuses_other_classes)
{
    expect_failure(crmm_logging_resource_adaptor_flush(&upstream.base), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_logging_resource_adaptor_flush: resource is mock_resource");
    expect_failure(crmm_logging_resource_adaptor_flush(NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "resource is (null)");
}

static void expect_not_created(const char *name, int error)
{
    crmm_resource *mr = NULL;

    expect_failure(
        crmm_logging_resource_adaptor_create(
            &upstream.base, CRMM_OPTIONS(crmm_logging_resource_adaptor, .file_name = name), &mr),
        CRMM_ERROR_IO, "cannot be written: ");
    expect_message(name);
    expect_equal(crmm_last_error()->native_code, error);
    cr_assert(mr == NULL);
}

Test(logging_resource_adaptor, a_file_that_cannot_be_written_is_an_error)
{
    crmm_resource *mr = NULL;

    expect_not_created(in_folder("no/such/folder.csv"), ENOENT);
    expect_not_created(folder, EISDIR);
    expect_not_created("/dev/full", ENOSPC);
    written.refuse = true;
    expect_failure(
        crmm_logging_resource_adaptor_create(
            &upstream.base,
            CRMM_OPTIONS(crmm_logging_resource_adaptor, .write = take, .user_data = &written), &mr),
        CRMM_ERROR_IO, "the function cannot be written: it refused");
    expect_equal(crmm_last_error()->native_code, 0);
    expect_equal(upstream.base.reserved[0], 1);
}

static size_t messages;
static char message[256];

static void note_message(crmm_log_level level, const char *text, void *unused)
{
    (void)unused;
    if (level == CRMM_LOG_LEVEL_ERROR) {
        messages++;
        (void)snprintf(message, sizeof(message), "%s", text);
    }
}

Test(logging_resource_adaptor, a_log_that_cannot_go_on_ends_with_a_whole_row)
{
    const char *file = in_folder("log.csv");
    struct rlimit limit = {.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
    void *ptr = NULL;

    expect_success(crmm_log_set_callback(note_message, NULL));
    cr_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    crmm_resource *mr = make_file(file, 1);
    cr_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    for (int i = 0; i < 100; i++) {
        use_once(mr);
    }
    cr_assert(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    cr_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    expect_success(crmm_allocate_sync(mr, 8, 8, &ptr)); /* even if there is room again */
    crmm_deallocate_sync(mr, ptr, 8, 8);

    const char *text = contents(file);
    size_t rows = count_lines(text) - 1;
    cr_assert(rows > 5 && rows < 100);
    cr_assert(text[strlen(text) - 1] == '\n');
    char expected[64];
    (void)snprintf(expected, sizeof(expected), "%zu rows are lost", 202 - rows);
    expect_failure(crmm_logging_resource_adaptor_flush(mr), CRMM_ERROR_IO, expected);
    expect_message("could not be written: File too large");
    expect_equal(crmm_last_error()->native_code, EFBIG);
    expect_equal(messages, 1);
    cr_assert(strstr(message, "log.csv could not be written: File too large; the log ends") != NULL,
              "%s", message);
    crmm_resource_release(&mr);
    expect_equal(upstream.live, 0);
}

Test(logging_resource_adaptor, a_function_that_refuses_ends_the_log)
{
    crmm_resource *mr = make();

    expect_success(crmm_log_set_callback(note_message, NULL));
    written.refuse = true;
    use_once(mr);
    written.refuse = false;
    use_once(mr);
    expect_text(written.text, HEADER);
    expect_failure(crmm_logging_resource_adaptor_flush(mr), CRMM_ERROR_IO,
                   "the function could not be written: it refused; 4 rows are lost");
    expect_equal(messages, 1);
    crmm_resource_release(&mr);
}

/* ---- the binary form ---- */

static uint64_t fixed(const char *bytes, unsigned count)
{
    uint64_t value = 0;
    for (unsigned i = count; i > 0; i--) {
        value = value << 8 | (unsigned char)bytes[i - 1];
    }
    return value;
}

Test(logging_resource_adaptor, the_binary_form_is_as_described)
{
    crmm_resource *mr = NULL;
    void *ptr = NULL;
    struct timespec now;
    struct tm local;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE); /* no device */
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)localtime_r(&now.tv_sec, &local);
    expect_success(crmm_logging_resource_adaptor_create(
        &upstream.base,
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .auto_flush = 1, .write = take,
                     .user_data = &written, .binary = 1),
        &mr));
    const char *header = written.text;
    expect_equal(written.length, 64);
    cr_assert(memcmp(header, "CRMMLOG\n", 8) == 0);
    expect_equal(fixed(header + 8, 4), 1);
    expect_equal(fixed(header + 12, 4), 64);
    uint64_t since =
        fixed(header + 16, 8) - ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
    cr_assert(since < (uint64_t)60 * 1000000000);
    expect_equal((int32_t)fixed(header + 24, 4), local.tm_gmtoff);
    expect_equal(fixed(header + 28, 4), getpid());
    expect_equal((int32_t)fixed(header + 32, 4), -1);
    for (int i = 36; i < 64; i++) {
        expect_equal(header[i], 0);
    }

    /* The second failure: thread and stream as before; status 5, and 300 in two parts of 7 bits. */
    upstream.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_status(crmm_allocate_sync(mr, 300, 8, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    size_t second = written.length;
    expect_status(crmm_allocate_sync(mr, 300, 8, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    const char *record = written.text + second;
    expect_equal(record[0], 1 | 4 | 8);
    cr_assert(memcmp(written.text + written.length - 3, "\x05\xac\x02", 3) == 0);
    cr_assert(written.length - second >= 5 && written.length - second <= 14);
    crmm_resource_release(&mr);
}

/* User report 72: what was recorded as device 0 was another one. */
Test(logging_resource_adaptor, the_binary_header_has_the_device)
{
    crmm_resource *mr = NULL;
    int device = -1;
    struct cudaDeviceProp properties;

    need_devices(1);
    cuda(cudaGetDevice(&device));
    cuda(cudaGetDeviceProperties(&properties, device));
    expect_success(crmm_logging_resource_adaptor_create(
        &upstream.base,
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .write = take, .user_data = &written,
                     .binary = 1),
        &mr));
    expect_equal(fixed(written.text + 32, 4), device);
    cr_assert(memcmp(written.text + 40, properties.uuid.bytes, 16) == 0);
    crmm_resource_release(&mr);
}
