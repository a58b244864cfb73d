/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "classes.h"
#include "number.h"

/* ---- JSON ---- */

static double ratio(const replay_result *result)
{
    return (double)result->peak_held / (double)result->peak_live;
}

static bool add_number_or_null(cJSON *to, const char *key, bool has, double value)
{
    return (has ? cJSON_AddNumberToObject(to, key, value) : cJSON_AddNullToObject(to, key)) != NULL;
}

static bool fill(cJSON *to, const report_line *line)
{
    const replay_result *result = &line->result;

    return cJSON_AddStringToObject(to, "trace", line->trace) != NULL &&
           cJSON_AddStringToObject(to, "resource", line->resource) != NULL &&
           add_number_or_null(to, "calls", true, (double)result->calls) &&
           add_number_or_null(to, "ns_per_call", true, round(result->ns_per_call * 10) / 10) &&
           add_number_or_null(to, "peak_live_bytes", true, (double)result->peak_live) &&
           add_number_or_null(to, "peak_held_bytes", true, (double)result->peak_held) &&
           add_number_or_null(to, "held_over_live", result->peak_live > 0, ratio(result)) &&
           add_number_or_null(to, "failed_row", result->failure.line != 0, result->failure.line);
}

bool report_json(FILE *out, const report_line *line)
{
    cJSON *object = cJSON_CreateObject();
    char *text = NULL;

    if (object != NULL && fill(object, line)) {
        text = cJSON_PrintUnformatted(object);
    }
    bool good = text != NULL;
    if (good) {
        (void)fprintf(out, "%s\n", text);
        (void)fflush(out);
    }
    cJSON_free(text);
    cJSON_Delete(object);
    return good;
}

/* ---- table ---- */

enum { COLUMNS = 8, CELL = 32 };

static const char *const headings[COLUMNS] = {
    "trace", "resource", "calls", "ns/call", "peak live", "peak held", "held/live", "failed row",
};

/* The cells of a line; the first two are the caller's texts, which can have any length. */
static void print_cells(const report_line *line, const char *cells[COLUMNS],
                        char text[COLUMNS][CELL])
{
    const replay_result *result = &line->result;

    cells[0] = line->trace;
    cells[1] = line->resource;
    for (int i = 2; i < COLUMNS; i++) {
        cells[i] = text[i];
    }
    (void)snprintf(text[2], CELL, "%zu", result->calls);
    (void)snprintf(text[3], CELL, "%.0f", result->ns_per_call);
    (void)number_print_size(result->peak_live, text[4]);
    (void)number_print_size(result->peak_held, text[5]);
    (void)snprintf(text[6], CELL, "-");
    if (result->peak_live > 0) {
        (void)snprintf(text[6], CELL, "%.3f", ratio(result));
    }
    (void)snprintf(text[7], CELL, "-");
    if (result->failure.line != 0) {
        (void)snprintf(text[7], CELL, "%u", result->failure.line);
    }
}

static void print_row(FILE *out, const char *const cells[COLUMNS], const int widths[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        (void)fprintf(out, "%s%*s", i == 0 ? "" : "  ", i < 2 ? -widths[i] : widths[i], cells[i]);
    }
    (void)fputc('\n', out);
}

static void widen(int widths[COLUMNS], const char *const cells[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        int length = (int)strlen(cells[i]);
        widths[i] = length > widths[i] ? length : widths[i];
    }
}

void report_table(FILE *out, const report_line *rows, size_t count)
{
    const char *cells[COLUMNS];
    char text[COLUMNS][CELL];
    int widths[COLUMNS] = {0};

    widen(widths, headings);
    for (size_t i = 0; i < count; i++) {
        print_cells(&rows[i], cells, text);
        widen(widths, cells);
    }
    print_row(out, headings, widths);
    for (size_t i = 0; i < count; i++) {
        print_cells(&rows[i], cells, text);
        print_row(out, cells, widths);
    }
}

/* ---- failures ---- */

static void print_figure(FILE *out, const char *name, size_t bytes)
{
    char text[NUMBER_SIZE_TEXT];

    (void)fprintf(out, "    %-12s %20zu  (%s)\n", name, bytes, number_print_size(bytes, text));
}

static void print_info(FILE *out, const crmm_memory_info *info)
{
    print_figure(out, "live", info->live);
    print_figure(out, "held", info->held);
    print_figure(out, "cached", info->cached);
    print_figure(out, "pending", info->pending);
    print_figure(out, "largest free", info->largest_free);
    print_figure(out, "peak live", info->peak_live);
    print_figure(out, "peak held", info->peak_held);
    (void)fprintf(out, "    %-12s %20zu\n", "allocations", info->allocations);
}

void report_failure(FILE *out, const report_line *line)
{
    const replay_failure *failure = &line->result.failure;
    char size[NUMBER_SIZE_TEXT];

    (void)fprintf(out,
                  "crmm-replay: %s:%u: %s: allocation of %zu bytes (%s) on stream %llu failed\n",
                  line->trace, failure->line, line->resource, failure->bytes,
                  number_print_size(failure->bytes, size), (unsigned long long)failure->stream);
    (void)fprintf(out, "  error: %s (native code %d): %s\n", crmm_status_name(line->result.status),
                  failure->error.native_code, failure->error.message);
    (void)fprintf(out, "  resource: %s\n", failure->description);
    if (failure->has_info) {
        print_info(out, &failure->info);
    } else {
        (void)fprintf(out, "    it keeps no books\n");
    }
}

/* ---- classes ---- */

static const char *value_text(parameter_kind kind)
{
    switch (kind) {
    case PARAMETER_SIZE:
        return "SIZE";
    case PARAMETER_COUNT:
        return "NUMBER";
    case PARAMETER_FLAG:
        return "0|1";
    case PARAMETER_TEXT:
        return "TEXT";
    }
    return "";
}

static const char *upstream_text(class_upstream upstream)
{
    switch (upstream) {
    case UPSTREAM_NONE:
        return "";
    case UPSTREAM_CUDA:
        return "; over what is to its right, or cuda";
    case UPSTREAM_OWN:
        return "; over what is to its right, or an upstream of its choice";
    }
    return "";
}

void report_classes(FILE *out)
{
    for (size_t i = 0; i < class_count; i++) {
        (void)fprintf(out, "%-20s %s%s\n", classes[i].name, classes[i].summary,
                      upstream_text(classes[i].upstream));
        for (int j = 0; j < CLASS_MOST_PARAMETERS && classes[i].parameters[j].name != NULL; j++) {
            const class_parameter *parameter = &classes[i].parameters[j];
            (void)fprintf(out, "    %s=%s  %s%s\n", parameter->name, value_text(parameter->kind),
                          parameter->summary, parameter->required ? " (required)" : "");
        }
    }
}
