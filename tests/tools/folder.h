/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_TOOLS_FOLDER_H
#define CRMM_TESTS_TOOLS_FOLDER_H

/* A folder for a test's files: fixtures, and writing into it. */

#include <stdbool.h>

void folder_make(void);
void folder_remove(void);

/* The path of a file in the folder; lives until the test ends. */
const char *folder_path(const char *name);

/* Write a file, as it is or compressed, and give its path. */
const char *folder_write(const char *name, const char *text);
const char *folder_write_gzip(const char *name, const char *text);

#endif
