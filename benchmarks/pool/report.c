/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <unistd.h>

/* ---- what is derived ---- */

/* How many times as fast as the reference; 0: not known. */
static double times_as_fast(const result *of, const result *reference)
{
    if (reference == NULL || of->why[0] != '\0' || reference->why[0] != '\0' ||
        of->median_ns <= 0) {
        return 0;
    }
    return reference->median_ns / of->median_ns;
}

/* 0: not known. */
static double held_over_live(const result *of)
{
    bool says_nothing = of->is_given || of->of->hides_held || of->peak_live == 0;
    return says_nothing ? 0 : (double)of->peak_held / (double)of->peak_live;
}

static const char *sharing_of(const bench_case *of)
{
    static const char *const names[] = {
        [STREAMS_OWN] = "own", [STREAMS_SHARED] = "shared", [STREAMS_LEGACY] = "legacy"};

    return names[of->sharing];
}

/* In the table: one thread's own say nothing. */
static const char *shown_sharing(const bench_case *of)
{
    return of->threads == 1 && of->sharing == STREAMS_OWN ? "-" : sharing_of(of);
}

/* ---- table ---- */

void report_heading(FILE *to)
{
    (void)fprintf(to, "%-3s %-29s %-4s %7s %-7s %-15s %11s %11s %8s %9s %9s %8s %8s %8s %8s\n", "",
                  "case", "unit", "threads", "streams", "allocator", "median ns", "min ns",
                  "x faster", "M/s", "held/live", "records", "queries", "waits", "moves");
}

/* A number, or a dash where it is not known. */
static void print_cell(FILE *to, bool is_known, int width, int digits, double value)
{
    if (is_known) {
        (void)fprintf(to, " %*.*f", width, digits, value);
    } else {
        (void)fprintf(to, " %*s", width, "-");
    }
}

void report_row(FILE *to, const result *of, const result *reference)
{
    const bench_case *what = of->of;

    (void)fprintf(to, "%-3s %-29s %-4s %7zu %-7s %-15s", what->workload, what->name, what->unit,
                  what->threads, shown_sharing(what), of->allocator);
    if (of->why[0] != '\0') {
        (void)fprintf(to, " left out: %s\n", of->why);
        return;
    }
    double faster = times_as_fast(of, reference);
    double held = held_over_live(of);
    (void)fprintf(to, " %10.1f%s %11.1f", of->median_ns, of->is_cut ? "*" : " ", of->min_ns);
    print_cell(to, faster > 0, 8, 2, faster);
    (void)fprintf(to, " %9.3f", of->per_second / 1e6);
    print_cell(to, held > 0, 9, 3, held);
    print_cell(to, of->tells_calls, 8, 4, of->records);
    print_cell(to, of->tells_calls, 8, 4, of->queries);
    print_cell(to, of->tells_calls, 8, 4, of->waits);
    print_cell(to, of->tells_calls, 8, 4, of->moves);
    for (size_t i = 0; i < of->figure_count; i++) {
        (void)fprintf(to, "  %s %.0f", of->figures[i].name, of->figures[i].value);
    }
    (void)fprintf(to, "\n");
}

/* ---- JSON ---- */

void report_json_begin(FILE *to)
{
    (void)fprintf(to, "{\"processors\": %ld, \"results\": [", sysconf(_SC_NPROCESSORS_ONLN));
}

static void json_number(FILE *to, const char *name, bool is_known, double value)
{
    if (is_known) {
        /* All digits of a number of bytes. */
        (void)fprintf(to, ", \"%s\": %.12g", name, value);
    } else {
        (void)fprintf(to, ", \"%s\": null", name);
    }
}

/* Names and reasons come from the command line and from CUDA. */
static void json_text(FILE *to, const char *text)
{
    (void)fputc('"', to);
    for (; *text != '\0'; text++) {
        unsigned char letter = (unsigned char)*text;
        if (letter == '"' || letter == '\\') {
            (void)fputc('\\', to);
        }
        if (letter < ' ') {
            (void)fprintf(to, "\\u%04x", letter);
        } else {
            (void)fputc(letter, to);
        }
    }
    (void)fputc('"', to);
}

void report_json_row(FILE *to, const result *of, const result *reference, bool is_first)
{
    const bench_case *what = of->of;
    bool is_good = of->why[0] == '\0';
    double faster = times_as_fast(of, reference);
    double held = held_over_live(of);

    (void)fprintf(to,
                  "%s\n    {\"workload\": \"%s\", \"case\": \"%s\", \"unit\": \"%s\", "
                  "\"threads\": %zu, \"streams\": \"%s\", \"allocator\": ",
                  is_first ? "" : ",", what->workload, what->name, what->unit, what->threads,
                  sharing_of(what));
    json_text(to, of->allocator);
    (void)fprintf(to, ", \"left_out\": ");
    if (is_good) {
        (void)fprintf(to, "null");
    } else {
        json_text(to, of->why);
    }
    (void)fprintf(to, ", \"is_steady\": %s", of->is_cut ? "false" : "true");
    json_number(to, "median_ns", is_good, of->median_ns);
    json_number(to, "min_ns", is_good, of->min_ns);
    json_number(to, "times_as_fast", faster > 0, faster);
    json_number(to, "per_second", is_good, of->per_second);
    json_number(to, "delayed", is_good, of->delayed);
    json_number(to, "peak_live_bytes", is_good, (double)of->peak_live);
    json_number(to, "peak_held_bytes", is_good, (double)of->peak_held);
    json_number(to, "held_over_live", is_good && held > 0, held);
    json_number(to, "records", of->tells_calls, of->records);
    json_number(to, "queries", of->tells_calls, of->queries);
    json_number(to, "waits", of->tells_calls, of->waits);
    json_number(to, "moves", of->tells_calls, of->moves);
    for (size_t i = 0; i < of->figure_count; i++) {
        json_number(to, of->figures[i].name, true, of->figures[i].value);
    }
    (void)fprintf(to, "}");
}

void report_json_end(FILE *to)
{
    (void)fprintf(to, "\n]}\n");
}
