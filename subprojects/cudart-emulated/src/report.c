/* SPDX-License-Identifier: Apache-2.0 */
/* The file that CUDART_EMULATED_REPORT names, written at exit. */
#include "emulated.h"

#include <stdio.h>

void report_write(void)
{
    if (config.report == NULL || *config.report == '\0') {
        return;
    }
    FILE *file = fopen(config.report, "w");
    if (file == NULL) {
        return;
    }
    fprintf(file, "{\"devices\": [");
    for (int d = 0; d < config.devices; d++) {
        const struct device *device = &devices[d];
        fprintf(file,
                "%s{\"device\": %d, \"allocated_bytes\": %zu, \"peak_allocated_bytes\": %zu, "
                "\"physical_bytes\": %zu, \"peak_physical_bytes\": %zu}",
                d == 0 ? "" : ", ", d, device->blocks, device->blocks_peak, device->physical,
                device->physical_peak);
    }
    fprintf(file, "], \"pinned_bytes\": %zu, \"peak_pinned_bytes\": %zu, \"violations\": %llu}\n",
            totals.pinned, totals.pinned_peak, violation_count());
    fclose(file);
}
