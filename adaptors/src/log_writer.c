/* SPDX-License-Identifier: Apache-2.0 */
#include "log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crmm/core/error.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/let_others_run.h>
#include <crmm/internal/log.h>

/* The log's own thread is woken each time as many records more are there. */
enum { WAKE_EVERY = CRMM_PRIV_LOG_RING_SIZE / 4 };

static bool is_of_this_process(const crmm_priv_log_writer *writer)
{
    return writer->link.process == crmm_priv_log_process();
}

/* ---- output; with the mutex ---- */

/* Leave no part of a row at the end, where the file can be cut. */
static void cut_off(int descriptor, size_t bytes)
{
    int kept = errno;
    off_t end = lseek(descriptor, 0, SEEK_CUR);

    if (end >= (off_t)bytes && ftruncate(descriptor, end - (off_t)bytes) != 0) {
        /* No file that could be: a device or a pipe. */
    }
    errno = kept;
}

static bool write_file(int descriptor, const char *data, size_t size)
{
    size_t done = 0;

    while (done < size) {
        ssize_t written = write(descriptor, data + done, size - done);
        if (written >= 0) {
            done += (size_t)written;
        } else if (errno != EINTR) {
            cut_off(descriptor, done);
            return false;
        }
    }
    return true;
}

static void add_lost(crmm_priv_log_writer *writer, size_t rows)
{
    (void)__atomic_fetch_add(&writer->lost, rows, __ATOMIC_RELEASE);
}

/* Write the text that waits. */
static void put_out(crmm_priv_log_writer *writer)
{
    bool good = true;

    errno = 0;
    if (writer->length > 0 && writer->descriptor >= 0) {
        good = write_file(writer->descriptor, writer->text, writer->length);
    } else if (writer->length > 0) {
        good = writer->write(writer->text, writer->length, writer->user_data);
        errno = 0;
    }
    if (!good) {
        writer->failed = true;
        __atomic_store_n(&writer->error, errno, __ATOMIC_RELAXED);
        add_lost(writer, writer->text_rows);
    }
    writer->length = 0;
    writer->text_rows = 0;
    __atomic_store_n(&writer->written, crmm_priv_log_ring_tail(&writer->ring), __ATOMIC_RELAXED);
}

static void put_row(crmm_priv_log_writer *writer, const crmm_priv_log_record *record)
{
    if (writer->failed) {
        add_lost(writer, 1);
        return;
    }
    writer->length += crmm_priv_log_rows_add(&writer->rows, record, writer->text + writer->length);
    writer->text_rows++;
    if (writer->length > sizeof(writer->text) - CRMM_PRIV_LOG_ROW_MOST) {
        put_out(writer);
    }
}

/* Write all records before the position `until`. */
static void drain(crmm_priv_log_writer *writer, size_t until)
{
    crmm_priv_log_record record;

    while (crmm_priv_log_ring_tail(&writer->ring) < until) {
        /* Another thread is between its claim and its last store, and waits for nothing there. */
        for (unsigned i = 0; !crmm_priv_log_ring_take(&writer->ring, &record); i++) {
            crmm_priv_let_others_run(i);
        }
        put_row(writer, &record);
    }
    put_out(writer);
}

/* ---- who writes ---- */

static bool is_writing(const crmm_priv_log_writer *writer)
{
    return __atomic_load_n(&writer->owner, __ATOMIC_RELAXED) == crmm_priv_log_thread();
}

static const char *name_of(const crmm_priv_log_writer *writer)
{
    return writer->name != NULL ? writer->name : "the function";
}

static const char *reason_of(const crmm_priv_log_writer *writer)
{
    int error = __atomic_load_n(&writer->error, __ATOMIC_RELAXED);
    return error != 0 ? strerror(error) : "it refused";
}

static void write_until(crmm_priv_log_writer *writer, size_t until)
{
    if (is_writing(writer)) {
        return; /* called from the function that is being written to */
    }
    crmm_error *error = (crmm_error *)crmm_last_error();
    crmm_error kept_error = *error;
    int kept_errno = errno;

    pthread_mutex_lock(&writer->mutex);
    __atomic_store_n(&writer->owner, crmm_priv_log_thread(), __ATOMIC_RELAXED);
    bool had_failed = writer->failed;
    drain(writer, until);
    bool fails_now = writer->failed && !had_failed;
    __atomic_store_n(&writer->owner, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&writer->mutex);

    if (fails_now) {
        LOG(CRMM_LOG_LEVEL_ERROR,
            "logging_resource_adaptor: %s could not be written: %s; the log ends", name_of(writer),
            reason_of(writer));
    }
    *error = kept_error;
    errno = kept_errno;
}

static void write_all(crmm_priv_log_writer *writer)
{
    write_until(writer, crmm_priv_log_ring_head(&writer->ring));
}

void crmm_priv_log_writer_add(crmm_priv_log_writer *writer, const crmm_priv_log_record *record)
{
    size_t position = 0;

    if (!is_of_this_process(writer)) {
        return;
    }
    while (!crmm_priv_log_ring_push(&writer->ring, record, &position)) {
        if (is_writing(writer)) {
            add_lost(writer, 1);
            return;
        }
        write_all(writer);
    }
    size_t written = __atomic_load_n(&writer->written, __ATOMIC_RELAXED);
    if (written <= position &&
        position - written + 1 >= __atomic_load_n(&writer->limit, __ATOMIC_RELAXED)) {
        write_until(writer, position + 1);
    } else if ((position + 1) % WAKE_EVERY == 0 &&
               __atomic_load_n(&writer->has_thread, __ATOMIC_RELAXED)) {
        (void)sem_post(&writer->wake);
    }
}

crmm_status crmm_priv_log_writer_flush(const char *who, crmm_priv_log_writer *writer)
{
    if (!is_of_this_process(writer)) {
        return CRMM_SUCCESS;
    }
    write_all(writer);
    size_t lost = __atomic_load_n(&writer->lost, __ATOMIC_ACQUIRE);
    return lost == 0 ? CRMM_SUCCESS
                     : FAIL(CRMM_ERROR_IO, __atomic_load_n(&writer->error, __ATOMIC_RELAXED),
                            "%s: %s could not be written: %s; %zu rows are lost", who,
                            name_of(writer), reason_of(writer), lost);
}

/* ---- the log's own thread ---- */

static void *run(void *argument)
{
    crmm_priv_log_writer *writer = argument;

    while (!__atomic_load_n(&writer->stop, __ATOMIC_ACQUIRE)) {
        if (sem_wait(&writer->wake) == 0) {
            write_all(writer);
        }
    }
    return NULL;
}

/* Where there can be no thread, the callers write. */
static void start_thread(crmm_priv_log_writer *writer)
{
    sigset_t all;
    sigset_t before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&writer->thread, NULL, run, writer) == 0;
    __atomic_store_n(&writer->has_thread, started, __ATOMIC_RELAXED);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop_thread(crmm_priv_log_writer *writer)
{
    if (!__atomic_exchange_n(&writer->has_thread, false, __ATOMIC_RELAXED)) {
        return;
    }
    __atomic_store_n(&writer->stop, true, __ATOMIC_RELEASE);
    (void)sem_post(&writer->wake);
    (void)pthread_join(writer->thread, NULL);
}

/* ---- life ---- */

/* Rows that come while the program exits have nobody to write them but the call itself. */
static void end_at_exit(crmm_priv_log_link *link)
{
    crmm_priv_log_writer *writer =
        (crmm_priv_log_writer *)((char *)link - offsetof(crmm_priv_log_writer, link));

    if (writer->descriptor >= 0) {
        __atomic_store_n(&writer->limit, 1, __ATOMIC_RELAXED);
        stop_thread(writer);
        write_all(writer);
    }
}

static void free_writer(crmm_priv_log_writer *writer)
{
    if (writer->descriptor >= 0) {
        (void)close(writer->descriptor);
    }
    crmm_priv_log_ring_finish(&writer->ring);
    (void)sem_destroy(&writer->wake);
    free(writer->name);
    free(writer);
}

/* Open the file, and write what a log begins with. 0, or why not. */
static bool begin(crmm_priv_log_writer *writer, const crmm_priv_log_setup *setup)
{
    if (setup->name != NULL) {
        writer->descriptor = open(setup->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (writer->descriptor < 0) {
            writer->error = errno;
            return false;
        }
    }
    writer->length =
        crmm_priv_log_rows_begin(&writer->rows, setup->binary, &setup->origin, writer->text);
    put_out(writer);
    return !writer->failed;
}

static void start(crmm_priv_log_writer *writer, const crmm_priv_log_setup *setup)
{
    writer->name = setup->name;
    writer->limit = setup->auto_flush != 0 ? setup->auto_flush : CRMM_PRIV_LOG_RING_SIZE;
    if (!crmm_priv_log_enter(&writer->link, end_at_exit)) {
        writer->limit = 1;
    } else if (writer->descriptor >= 0 && setup->auto_flush == 0) {
        start_thread(writer);
    }
}

crmm_status crmm_priv_log_writer_create(const char *who, const crmm_priv_log_setup *setup,
                                        crmm_priv_log_writer **out)
{
    crmm_priv_log_writer *created = calloc(1, sizeof(*created));

    if (created == NULL || !crmm_priv_log_ring_init(&created->ring)) {
        free(created);
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the buffer", who);
    }
    created->descriptor = -1;
    created->write = setup->write;
    created->user_data = setup->user_data;
    created->link.process = crmm_priv_log_process();
    (void)pthread_mutex_init(&created->mutex, NULL);
    (void)sem_init(&created->wake, 0, 0);
    if (!begin(created, setup)) {
        int error = created->error;
        free_writer(created);
        return FAIL(CRMM_ERROR_IO, error, "%s: %s cannot be written: %s", who,
                    setup->name != NULL ? setup->name : "the function",
                    error != 0 ? strerror(error) : "it refused");
    }
    start(created, setup);
    *out = created;
    return CRMM_SUCCESS;
}

void crmm_priv_log_writer_free(crmm_priv_log_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    if (is_of_this_process(writer)) {
        crmm_priv_log_leave(&writer->link);
        stop_thread(writer);
        write_all(writer);
        (void)pthread_mutex_destroy(&writer->mutex);
    }
    free_writer(writer);
}
