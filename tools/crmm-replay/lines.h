/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_LINES_H
#define CRMM_REPLAY_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include <zlib.h>

#include "problem.h"

/* A text file, plain or gzip, read line by line. */
typedef struct lines {
    const char *path;
    gzFile file;
    uint32_t number; /* of the line in `text`; the first is 1 */
    char text[512];  /* without its newline */
} lines;

typedef enum lines_result {
    LINES_GOT,
    LINES_END,
    LINES_FAILED,
} lines_result;

/* "-" is standard input. Nothing to close on failure. */
bool lines_open(lines *in, const char *path, problem *why);
void lines_close(lines *in);

lines_result lines_next(lines *in, problem *why);

/* Whether reading has failed, which is described then, rather than come to the end of the file. */
bool lines_failed(const lines *in, problem *why);

/* A problem with the line just read: file, line and the reason, as printf does. Gives false. */
__attribute__((format(printf, 3, 4))) bool lines_malformed(const lines *in, problem *why,
                                                           const char *format, ...);

/*
 * Split the line at its commas, in place. Exactly `count` fields; anything else is malformed, and
 * `columns` (the header) says what was expected.
 */
bool lines_split(lines *in, char *fields[], unsigned count, const char *columns, problem *why);

#endif
