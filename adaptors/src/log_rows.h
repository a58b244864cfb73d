/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_LOG_ROWS_H
#define CRMM_ADAPTORS_SRC_LOG_ROWS_H

#include <stdbool.h>

#include "log_record.h"

/* The most bytes that a header or a row takes. */
enum { CRMM_PRIV_LOG_ROW_MOST = 128 };

/* What the header of the binary form says. */
typedef struct crmm_priv_log_origin {
    uint32_t process;
    int32_t device;         /* -1: none */
    unsigned char uuid[16]; /* zeros where it is not known */
    uint64_t time;          /* nanoseconds since the epoch */
} crmm_priv_log_origin;

/* Turns records into rows of either form; a row can depend on the one before. */
typedef struct crmm_priv_log_rows {
    bool binary;
    int64_t minute; /* text: since the epoch, of which `clock` is HH:MM in local time */
    char clock[8];
    uint64_t time; /* binary: of the record before */
    uint64_t ptr;
    uint64_t stream;
    uint32_t thread;
} crmm_priv_log_rows;

/* Write what a log begins with, and its length. */
size_t crmm_priv_log_rows_begin(crmm_priv_log_rows *rows, bool binary,
                                const crmm_priv_log_origin *origin, char *out);

/* Write the row of a record, and its length. Nothing is allocated. */
size_t crmm_priv_log_rows_add(crmm_priv_log_rows *rows, const crmm_priv_log_record *record,
                              char *out);

#endif
