/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_LOG_WRITER_H
#define CRMM_ADAPTORS_SRC_LOG_WRITER_H

#include <pthread.h>
#include <semaphore.h>

#include <crmm/adaptors/logging_resource_adaptor.h>

#include "log_process.h"
#include "log_ring.h"
#include "log_rows.h"

/*
 * A log: records go into a ring, and come out as rows in a file or a function.
 *
 * Who writes holds the mutex, calls the sink with it, and nothing else. A record is written by the
 * thread that `limit` makes write it, by the log's own thread, or by one that finds the ring full.
 */
typedef struct crmm_priv_log_writer {
    crmm_priv_log_ring ring;
    size_t limit;   /* atomic: as many waiting records make the one who adds the last write them */
    size_t written; /* atomic: the position up to which they are written */
    crmm_priv_log_link link;

    char *name;     /* of the file; NULL: a function */
    int descriptor; /* of the file; else -1 */
    crmm_logging_write write;
    void *user_data;

    pthread_mutex_t mutex;
    uint32_t owner; /* atomic: the thread that writes, or 0 */
    crmm_priv_log_rows rows;
    size_t length;    /* of the text that waits */
    size_t text_rows; /* in it */
    char text[64 << 10];
    bool failed; /* nothing is written any more */
    int error;   /* atomic: errno of that; 0 of a function */
    size_t lost; /* atomic: rows since */

    pthread_t thread; /* the log's own, where `has_thread` */
    bool has_thread;  /* atomic */
    bool stop;        /* atomic */
    sem_t wake;
} crmm_priv_log_writer;

/* What a log is made of; `name` becomes the writer's on success. */
typedef struct crmm_priv_log_setup {
    char *name; /* NULL: use `write` */
    crmm_logging_write write;
    void *user_data;
    size_t auto_flush;
    bool binary;
    crmm_priv_log_origin origin;
} crmm_priv_log_setup;

/* Failures are described in the name of `who`; there is nothing to free then. */
crmm_status crmm_priv_log_writer_create(const char *who, const crmm_priv_log_setup *setup,
                                        crmm_priv_log_writer **out);

/* Write what waits, and free the log. NULL is ignored. */
void crmm_priv_log_writer_free(crmm_priv_log_writer *writer);

/* Add a record; the error record of the thread and errno stay. */
void crmm_priv_log_writer_add(crmm_priv_log_writer *writer, const crmm_priv_log_record *record);

/* Write what waits. */
crmm_status crmm_priv_log_writer_flush(const char *who, crmm_priv_log_writer *writer);

#endif
