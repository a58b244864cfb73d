/* SPDX-License-Identifier: Apache-2.0 */
/* crmm-replay: replays recorded allocation traces through memory resources and compares them. */
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crmm/core/version.h>

#include "classes.h"
#include "convert.h"
#include "number.h"
#include "replay.h"
#include "report.h"
#include "spec.h"
#include "trace.h"

typedef enum exit_status {
    STATUS_GOOD = 0,
    STATUS_FAILED = 1, /* an allocation failed, or a replay could not be carried out */
    STATUS_WRONG = 2,  /* usage, a SPEC or a trace */
} exit_status;

typedef struct program {
    spec *specs;
    size_t spec_count;
    bool comparing; /* the specs are everything the build offers */
    bool json;
    bool list;
    const char *convert; /* the file that --convert writes */
    uint64_t repeat;
    char **paths;
    size_t path_count;
    trace *traces;
    size_t trace_count;
    report_line *lines;
    size_t line_count;
    exit_status status;
} program;

static const char usage[] =
    "Usage: crmm-replay [OPTION]... TRACE...\n"
    "Replay recorded allocation traces through memory resources and report time and space.\n"
    "\n"
    "  -r, --resource=SPEC  a resource to replay through; may be given several times.\n"
    "                       Without it: every class of this build that stands alone\n"
    "                       and can take the traces\n"
    "  -n, --repeat=N       replay N times and report the fastest run (default 1)\n"
    "  -j, --json           print one JSON object per line instead of a table\n"
    "  -c, --convert=FILE   write the rows of one TRACE, a binary log of the logging adaptor,\n"
    "                       as text to FILE, or - for standard output, and do nothing else\n"
    "  -l, --list           list the classes with their parameters and options\n"
    "  -h, --help           print this help\n"
    "  -V, --version        print the version\n"
    "\n"
    "TRACE is a file, plain or gzip, or - for standard input: a recorded trace\n"
    "(time_us,action,id,bytes,stream), or a log of RMM's or crmm's logging adaptor,\n"
    "text or binary.\n"
    "\n"
    "SPEC is PART[+PART]..., outermost first. PART is a class of --list, then\n"
    ":option=value,... if it takes any. The upstream of a part is the one to its right;\n"
    "cuda if there is none. Sizes are bytes, or have a unit: 64KiB, 64MiB, 1GiB, 1TiB.\n"
    "For example: limiting:allocation_limit=64GiB+managed\n"
    "\n"
    "Exit status: 0 all replayed, 1 an allocation failed or a replay could not be\n"
    "carried out, 2 wrong usage, a wrong SPEC or a malformed trace.\n";

static exit_status complain(const problem *why)
{
    (void)fprintf(stderr, "crmm-replay: %s\n", why->text);
    return STATUS_WRONG;
}

static exit_status complain_of_usage(const char *what)
{
    if (what != NULL) {
        (void)fprintf(stderr, "crmm-replay: %s\n", what);
    }
    (void)fprintf(stderr, "Try 'crmm-replay --help'.\n");
    return STATUS_WRONG;
}

/* ---- arguments ---- */

static bool add_spec(program *self, const char *text)
{
    problem why;

    if (!spec_parse(text, &self->specs[self->spec_count], &why)) {
        self->status = complain(&why);
        return false;
    }
    self->spec_count++;
    return true;
}

static bool set_repeat(program *self, const char *text)
{
    if (!number_decimal(text, &self->repeat) || self->repeat == 0) {
        (void)fprintf(stderr, "crmm-replay: --repeat cannot be \"%s\": it takes a number from 1\n",
                      text);
        self->status = STATUS_WRONG;
        return false;
    }
    return true;
}

/* False: the program ends, with self->status. */
static bool take_option(program *self, int option)
{
    switch (option) {
    case 'r':
        return add_spec(self, optarg);
    case 'n':
        return set_repeat(self, optarg);
    case 'j':
        self->json = true;
        return true;
    case 'c':
        self->convert = optarg;
        return true;
    case 'l':
        self->list = true;
        return true;
    case 'h':
        (void)fputs(usage, stdout);
        return false;
    case 'V':
        (void)printf("crmm-replay %s\n", crmm_version());
        return false;
    default:
        self->status = complain_of_usage(NULL);
        return false;
    }
}

/* Everything that stands alone with its defaults. */
static bool add_all_specs(program *self)
{
    self->comparing = true;
    for (size_t i = 0; i < class_count; i++) {
        if (classes[i].compared && !add_spec(self, classes[i].name)) {
            return false;
        }
    }
    return true;
}

static bool check_paths(program *self)
{
    size_t standard_inputs = 0;

    for (size_t i = 0; i < self->path_count; i++) {
        standard_inputs += strcmp(self->paths[i], "-") == 0 ? 1 : 0;
    }
    if (self->path_count == 0 || standard_inputs > 1) {
        self->status = complain_of_usage(
            self->path_count == 0 ? "no TRACE given" : "standard input can be only one TRACE");
        return false;
    }
    if (self->convert != NULL && (self->path_count > 1 || self->spec_count > 0)) {
        self->status = complain_of_usage("--convert takes one TRACE and no --resource");
        return false;
    }
    return true;
}

/* False: the program ends, with self->status. */
static bool take_arguments(program *self, int argc, char **argv)
{
    static const struct option options[] = {
        {"resource", required_argument, NULL, 'r'}, {"repeat", required_argument, NULL, 'n'},
        {"json", no_argument, NULL, 'j'},           {"convert", required_argument, NULL, 'c'},
        {"list", no_argument, NULL, 'l'},           {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},        {NULL, 0, NULL, 0},
    };
    int option = 0;

    self->repeat = 1;
    /* Each argument gives a spec at most, unless there is none and the classes do. */
    self->specs = calloc((size_t)argc + class_count, sizeof(*self->specs));
    if (self->specs == NULL) {
        problem why;
        (void)problem_no_memory(&why);
        (void)complain(&why);
        self->status = STATUS_FAILED;
        return false;
    }
    while ((option = getopt_long(argc, argv, "r:n:jc:lhV", options, NULL)) != -1) {
        if (!take_option(self, option)) {
            return false;
        }
    }
    if (self->list) {
        report_classes(stdout);
        return false;
    }
    self->paths = argv + optind;
    self->path_count = (size_t)(argc - optind);
    return check_paths(self) &&
           (self->convert != NULL || self->spec_count > 0 || add_all_specs(self));
}

/* ---- the main job ---- */

static bool load_traces(program *self)
{
    problem why;

    /* One more than there are, as none at all might be NULL. */
    self->traces = calloc(self->path_count + 1, sizeof(*self->traces));
    self->lines = calloc(self->path_count * self->spec_count + 1, sizeof(*self->lines));
    if (self->traces == NULL || self->lines == NULL) {
        (void)problem_no_memory(&why);
        (void)complain(&why);
        self->status = STATUS_FAILED;
        return false;
    }
    for (; self->trace_count < self->path_count; self->trace_count++) {
        if (!trace_load(&self->traces[self->trace_count], self->paths[self->trace_count], &why)) {
            self->status = complain(&why);
            return false;
        }
    }
    return true;
}

/* The fastest of the repetitions; the first that is not carried through ends them. */
static replay_outcome replay_best(const program *self, const trace *what, const spec *through,
                                  replay_result *best, problem *why)
{
    replay_outcome outcome = replay_run(what, through, best, why);

    for (uint64_t i = 1; i < self->repeat && outcome == REPLAY_DONE; i++) {
        replay_result result;
        outcome = replay_run(what, through, &result, why);
        if (outcome != REPLAY_DONE || result.ns_per_call < best->ns_per_call) {
            *best = result;
        }
    }
    return outcome;
}

/* Whether a class that nobody asked for cannot be used here at all: no reason to fail. */
static bool is_left_out(const program *self, const trace *what, replay_outcome outcome,
                        const replay_result *result)
{
    if (!self->comparing || what->row_count == 0) {
        return false;
    }
    return outcome == REPLAY_REFUSED ||
           (outcome == REPLAY_ALLOCATION_FAILED && result->status == CRMM_ERROR_UNSUPPORTED &&
            result->failure.line == what->rows[0].line);
}

/*
 * Whether a class that nobody asked for would lock more of the host's memory than this machine can
 * spare: half, beside all else that runs on it.
 */
static bool would_lock_too_much(const program *self, const trace *what, const spec *through)
{
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    size_t needed = trace_peak_live(what);
    char texts[2][NUMBER_SIZE_TEXT];

    if (!self->comparing || !through->parts[0].of->locks_memory || needed <= memory / 2) {
        return false;
    }
    (void)fprintf(stderr,
                  "crmm-replay: %s is left out: %s would lock %s of this machine's %s of memory\n",
                  through->text, what->path, number_print_size(needed, texts[0]),
                  number_print_size(memory, texts[1]));
    return true;
}

static void note_status(program *self, exit_status status)
{
    self->status = status > self->status ? status : self->status;
}

static void replay_one(program *self, const trace *what, const spec *through)
{
    report_line line = {.trace = what->path, .resource = through->text};
    problem why = {{0}};

    if (would_lock_too_much(self, what, through)) {
        return;
    }
    replay_outcome outcome = replay_best(self, what, through, &line.result, &why);

    if (is_left_out(self, what, outcome, &line.result)) {
        (void)fprintf(stderr, "crmm-replay: %s is left out: %s\n", through->text,
                      outcome == REPLAY_REFUSED ? why.text : line.result.failure.error.message);
        return;
    }
    if (outcome == REPLAY_REFUSED || outcome == REPLAY_BROKEN) {
        (void)complain(&why);
        note_status(self, line.result.status == CRMM_ERROR_INVALID_ARGUMENT ? STATUS_WRONG
                                                                            : STATUS_FAILED);
        return;
    }
    if (outcome == REPLAY_ALLOCATION_FAILED) {
        report_failure(stderr, &line);
        note_status(self, STATUS_FAILED);
    }
    self->lines[self->line_count++] = line;
    if (self->json && !report_json(stdout, &line)) {
        (void)fprintf(stderr, "crmm-replay: there is no memory for the report\n");
        note_status(self, STATUS_FAILED);
    }
}

static void replay_all(program *self)
{
    for (size_t i = 0; i < self->trace_count; i++) {
        for (size_t j = 0; j < self->spec_count; j++) {
            replay_one(self, &self->traces[i], &self->specs[j]);
        }
    }
    if (!self->json && self->line_count > 0) {
        report_table(stdout, self->lines, self->line_count);
    }
    if (self->line_count == 0 && self->status == STATUS_GOOD) {
        (void)fprintf(stderr, "crmm-replay: no resource of this build can be used here\n");
        self->status = STATUS_FAILED;
    }
}

static void convert(program *self)
{
    problem why;
    convert_outcome outcome = convert_log(self->paths[0], self->convert, &why);

    if (outcome != CONVERT_DONE) {
        (void)complain(&why);
        self->status = outcome == CONVERT_MALFORMED ? STATUS_WRONG : STATUS_FAILED;
    }
}

static void finish(program *self)
{
    for (size_t i = 0; i < self->trace_count; i++) {
        trace_free(&self->traces[i]);
    }
    free(self->traces);
    free(self->lines);
    free(self->specs);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "crmm-replay: the output cannot be written\n");
        note_status(self, STATUS_FAILED);
    }
}

int main(int argc, char **argv)
{
    program self = {0};

#ifdef M_PERTURB
    /* Memory is only reserved, which may be more than there is: MALLOC_PERTURB_ would write it. */
    (void)mallopt(M_PERTURB, 0);
#endif
    if (take_arguments(&self, argc, argv)) {
        if (self.convert != NULL) {
            convert(&self);
        } else if (load_traces(&self)) {
            replay_all(&self);
        }
    }
    finish(&self);
    return (int)self.status;
}
