/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/host_memory.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The beginning of the file is enough. Not by stdio, which would allocate. */
static bool read_meminfo(char *text, size_t size)
{
    int file = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);

    if (file < 0) {
        return false;
    }
    ssize_t length = read(file, text, size - 1);
    (void)close(file);
    text[length < 0 ? 0 : length] = '\0';
    return length > 0;
}

bool crmm_priv_host_available(size_t *bytes)
{
    static const char label[] = "\nMemAvailable:";
    char text[1024];

    if (!read_meminfo(text, sizeof(text))) {
        return false;
    }
    const char *line = strstr(text, label);
    if (line == NULL) {
        return false;
    }
    char *end = NULL;
    unsigned long long kib = strtoull(line + strlen(label), &end, 10);
    if (strncmp(end, " kB", 3) != 0 || kib > SIZE_MAX / 1024) {
        return false;
    }
    *bytes = (size_t)kib * 1024;
    return true;
}
