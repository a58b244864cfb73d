/* SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <zlib.h>

static char folder[] = "/tmp/crmm-replay-test-XXXXXX";

void folder_make(void)
{
    cr_assert(mkdtemp(folder) != NULL);
}

static int remove_entry(const char *path, const struct stat *status, int flag, struct FTW *where)
{
    (void)status;
    (void)flag;
    (void)where;
    return remove(path);
}

void folder_remove(void)
{
    (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *folder_path(const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned used;
    char *path = paths[used++ % 8];

    (void)snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return path;
}

const char *folder_write(const char *name, const char *text)
{
    const char *path = folder_path(name);
    FILE *file = fopen(path, "w");

    cr_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
    return path;
}

const char *folder_write_gzip(const char *name, const char *text)
{
    const char *path = folder_path(name);
    gzFile file = gzopen(path, "wb");

    cr_assert(file != NULL, "%s", path);
    cr_assert(gzwrite(file, text, (unsigned)strlen(text)) == (int)strlen(text), "%s", path);
    cr_assert(gzclose(file) == Z_OK, "%s", path);
    return path;
}
