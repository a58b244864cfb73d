/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { WIDTH = 30, STEPS = 100 };

void progress_begin(progress *bar, const char *trace, const char *resource, size_t total)
{
    *bar = (progress){.trace = trace, .resource = resource, .total = total, .next = SIZE_MAX};
    if (total > 0 && isatty(STDERR_FILENO)) {
        progress_draw(bar, 0);
    }
}

void progress_draw(progress *bar, size_t done)
{
    static const char full[] = "##############################";
    double share = (double)done / (double)bar->total;
    int filled = (int)(share * WIDTH);

    (void)fprintf(stderr, "\r[%.*s%*s] %3.0f%%  %s  %s\033[K", filled, full, WIDTH - filled, "",
                  share * 100, bar->resource, bar->trace);
    (void)fflush(stderr);
    bar->next = done + bar->total / STEPS + 1;
}

void progress_end(const progress *bar)
{
    if (bar->next != SIZE_MAX) {
        (void)fprintf(stderr, "\r\033[K");
    }
}
