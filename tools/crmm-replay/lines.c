/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static gzFile open_file(const char *path)
{
    if (strcmp(path, "-") != 0) {
        return gzopen(path, "rb");
    }
    int descriptor = dup(STDIN_FILENO); /* gzclose() closes it */
    gzFile file = descriptor >= 0 ? gzdopen(descriptor, "rb") : NULL;
    if (file == NULL && descriptor >= 0) {
        (void)close(descriptor);
    }
    return file;
}

bool lines_open(lines *in, const char *path, problem *why)
{
    errno = 0;
    *in = (lines){.path = path, .file = open_file(path)};
    if (in->file == NULL) {
        return problem_set(why, "%s: cannot be opened: %s", path,
                           strerror(errno != 0 ? errno : ENOMEM));
    }
    (void)gzbuffer(in->file, 128U << 10);
    return true;
}

void lines_close(lines *in)
{
    (void)gzclose(in->file);
    in->file = NULL;
}

bool lines_malformed(const lines *in, problem *why, const char *format, ...)
{
    char reason[512];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    return problem_set(why, "%s:%u: %s", in->path, in->number, reason);
}

/* zlib does not tell the two apart. */
bool lines_failed(const lines *in, problem *why)
{
    int code = Z_OK;
    const char *text = gzerror(in->file, &code);

    if (code == Z_OK || code == Z_STREAM_END) {
        return false;
    }
    if (code == Z_ERRNO) {
        text = strerror(errno);
    } else if (code == Z_BUF_ERROR) {
        text = "the compressed data ends too early";
    }
    (void)lines_malformed(in, why, "cannot be read: %s", text);
    return true;
}

lines_result lines_next(lines *in, problem *why)
{
    z_off_t before = gztell(in->file);

    in->number++;
    if (gzgets(in->file, in->text, (int)sizeof(in->text)) == NULL) {
        return lines_failed(in, why) ? LINES_FAILED : LINES_END;
    }
    char *newline = strchr(in->text, '\n');
    if (newline != NULL) {
        *newline = '\0';
        return LINES_GOT;
    }
    if (lines_failed(in, why)) {
        return LINES_FAILED;
    }
    /* The last line may do without its newline. */
    if (!gzeof(in->file) || gztell(in->file) - before != (z_off_t)strlen(in->text)) {
        (void)lines_malformed(in, why, "the row is longer than %zu characters or contains NUL",
                              sizeof(in->text) - 2);
        return LINES_FAILED;
    }
    return LINES_GOT;
}

bool lines_split(lines *in, char *fields[], unsigned count, const char *columns, problem *why)
{
    unsigned found = 0;
    char *rest = in->text;

    while (rest != NULL) {
        char *field = strsep(&rest, ",");
        if (found < count) {
            fields[found] = field;
        }
        found++;
    }
    return found == count ||
           lines_malformed(in, why, "%u fields where there are %u (%s)", found, count, columns);
}
