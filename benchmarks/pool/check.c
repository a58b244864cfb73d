/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "candidates.h"
#include "cases.h"
#include "measure.h"

enum { MOST_PROBES = 20, MOST_RULES = 24, ATTEMPTS = 4 };
enum { SOME_THREADS = 8, MANY_THREADS = 16 };

/* More than the kernel itself takes. */
#define MOST_DELAYED 0.02

typedef enum rule_kind {
    RULE_TIMES,      /* time of `other` over that of `probe`, at least */
    RULE_SLOWDOWN,   /* time of `probe` over that of `other`, at most */
    RULE_PER_SECOND, /* million steps a second of all threads, at least */
    RULE_THROUGHPUT, /* steps a second of `probe` by those of `other`, at least */
    RULE_HELD,       /* held over live, at most */
} rule_kind;

typedef struct rule {
    const char *text;
    rule_kind kind;
    size_t probe, other;
    double limit;
} rule;

typedef struct check {
    candidate on, reference;
    bench_case cases[MOST_PROBES];
    entry entries[MOST_PROBES];
    result best[MOST_PROBES];
    size_t count;
    rule rules[MOST_RULES];
    size_t rule_count;
} check;

/* ---- what is asked ---- */

/* Short rounds, and more of them: the least of many finds a moment in which nobody else had the
 * processors. */
static size_t probe(check *self, const candidate *on, bench_case of)
{
    of.rounds = 15;
    if (of.threads > 1) {
        of.seconds = 0.02;
    } else if (of.steps > 50000) {
        of.steps = 50000;
    }
    self->cases[self->count] = of;
    self->entries[self->count] = (entry){&self->cases[self->count], on};
    return self->count++;
}

static void demand(check *self, const char *text, rule_kind kind, size_t probe_, size_t other,
                   double limit)
{
    self->rules[self->rule_count++] = (rule){text, kind, probe_, other, limit};
}

static void demand_one_thread(check *self, size_t *pair, size_t *churn)
{
    *pair = probe(self, &self->on, case_pair(1024, 1, STREAMS_OWN));
    size_t reference = probe(self, &self->reference, case_pair(1024, 1, STREAMS_OWN));
    size_t few = probe(self, &self->on, case_churn(100, 1, STREAMS_OWN));
    *churn = probe(self, &self->on, case_churn(1000, 1, STREAMS_OWN));
    size_t more = probe(self, &self->on, case_churn(10000, 1, STREAMS_OWN));
    size_t many = probe(self, &self->on, case_churn(100000, 1, STREAMS_OWN));

    demand(self, "a pair of 1 KiB, times as fast as the reference", RULE_TIMES, *pair, reference,
           4);
    demand(self, "a step with 100 000 live blocks, by one with 100", RULE_SLOWDOWN, many, few, 2);
    demand(self, "held by live, 10 000 blocks", RULE_HELD, more, more, 1.20);
    demand(self, "held by live, 100 000 blocks", RULE_HELD, many, many, 1.10);
}

static void demand_two_threads(check *self, size_t pair, size_t churn)
{
    static const char *const texts[2][2] = {
        {"a pair in two threads on own streams, by one thread's",
         "a step in two threads on own streams, by one thread's"},
        {"a pair in two threads on one stream, by one thread's",
         "a step in two threads on one stream, by one thread's"},
    };

    for (int i = 0; i < 2; i++) {
        stream_sharing sharing = i == 0 ? STREAMS_OWN : STREAMS_SHARED;
        size_t pairs = probe(self, &self->on, case_pair(1024, 2, sharing));
        size_t churns = probe(self, &self->on, case_churn(1000, 2, sharing));
        demand(self, texts[i][0], RULE_SLOWDOWN, pairs, pair, 1.2);
        demand(self, texts[i][1], RULE_SLOWDOWN, churns, churn, 1.5);
    }
}

/* What users of pools with one lock miss most: that threads do not wait for each other. */
static void demand_some_threads(check *self)
{
    static const struct {
        size_t bytes;
        const char *text;
    } pairs[] = {
        {(size_t)64 << 10, "pairs of 64 KiB a second in 8 threads, by those in one"},
        {(size_t)1 << 20, "pairs of 1 MiB a second in 8 threads, by those in one"},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        size_t one = probe(self, &self->on, case_pair(pairs[i].bytes, 1, STREAMS_OWN));
        size_t some = probe(self, &self->on, case_pair(pairs[i].bytes, SOME_THREADS, STREAMS_OWN));
        demand(self, pairs[i].text, RULE_THROUGHPUT, some, one, 3);
    }
}

static void demand_many_threads(check *self)
{
    static const struct {
        stream_sharing sharing;
        size_t live_blocks;
        double held;
        const char *held_text;
    } runs[] = {
        {STREAMS_OWN, 1000, 1.60, "held by live, 16 threads of 1 000 blocks on own streams"},
        {STREAMS_OWN, 4000, 1.45, "held by live, 16 threads of 4 000 blocks on own streams"},
        {STREAMS_OWN, 10000, 1.40, "held by live, 16 threads of 10 000 blocks on own streams"},
        {STREAMS_SHARED, 1000, 1.50, "held by live, 16 threads of 1 000 blocks on one stream"},
        {STREAMS_SHARED, 4000, 1.35, "held by live, 16 threads of 4 000 blocks on one stream"},
        {STREAMS_SHARED, 10000, 1.25, "held by live, 16 threads of 10 000 blocks on one stream"},
    };

    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        size_t at =
            probe(self, &self->on, case_churn(runs[i].live_blocks, MANY_THREADS, runs[i].sharing));
        if (runs[i].live_blocks == 1000) {
            demand(self,
                   runs[i].sharing == STREAMS_OWN
                       ? "million steps a second, 16 threads on own streams"
                       : "million steps a second, 16 threads on one stream",
                   RULE_PER_SECOND, at, at, 80);
        }
        demand(self, runs[i].held_text, RULE_HELD, at, at, runs[i].held);
    }
}

/* ---- what is found ---- */

static double value_of(const check *self, const rule *of)
{
    const result *on = &self->best[of->probe];
    const result *other = &self->best[of->other];

    switch (of->kind) {
    case RULE_TIMES:
        return other->min_ns / on->min_ns;
    case RULE_SLOWDOWN:
        return on->min_ns / other->min_ns;
    case RULE_PER_SECOND:
        return on->per_second / 1e6;
    case RULE_THROUGHPUT:
        return on->per_second / other->per_second;
    case RULE_HELD:
        return (double)on->peak_held / (double)on->peak_live;
    }
    return 0;
}

/* What the limit is: the least value, or the highest. */
static bool is_at_least(const rule *of)
{
    return of->kind == RULE_TIMES || of->kind == RULE_PER_SECOND || of->kind == RULE_THROUGHPUT;
}

static bool is_met(const check *self, const rule *of)
{
    double value = value_of(self, of);

    return is_at_least(of) ? value >= of->limit : value <= of->limit;
}

static size_t count_missed(const check *self)
{
    size_t missed = 0;

    for (size_t i = 0; i < self->rule_count; i++) {
        missed += is_met(self, &self->rules[i]) ? 0 : 1;
    }
    return missed;
}

static void keep_best(result *best, const result *now)
{
    if (best->of == NULL) {
        *best = *now;
        return;
    }
    best->delayed = now->delayed < best->delayed ? now->delayed : best->delayed;
    best->min_ns = now->min_ns < best->min_ns ? now->min_ns : best->min_ns;
    best->per_second = now->per_second > best->per_second ? now->per_second : best->per_second;
    if ((double)now->peak_held * (double)best->peak_live <
        (double)best->peak_held * (double)now->peak_live) {
        best->peak_held = now->peak_held;
        best->peak_live = now->peak_live;
    }
}

static void measure_once(check *self)
{
    result now[MOST_PROBES];

    measure(self->entries, self->count, now);
    for (size_t i = 0; i < self->count; i++) {
        if (now[i].why[0] != '\0') {
            bench_fail("%s, %s: %s", now[i].allocator, now[i].of->name, now[i].why);
        }
        keep_best(&self->best[i], &now[i]);
    }
}

static void report(const check *self)
{
    double delayed = 0;

    for (size_t i = 0; i < self->count; i++) {
        delayed = self->best[i].delayed > delayed ? self->best[i].delayed : delayed;
    }
    if (delayed > MOST_DELAYED) {
        (void)printf(
            "others had up to %.0f %% of the processors' time: the times of several threads "
            "say little\n",
            delayed * 100);
    }
    for (size_t i = 0; i < self->rule_count; i++) {
        const rule *each = &self->rules[i];
        (void)printf("%-7s %-60s %9.3f  %s %.2f\n", is_met(self, each) ? "good" : "MISSED",
                     each->text, value_of(self, each),
                     is_at_least(each) ? ">=" : "<=", each->limit);
    }
}

int check_pool(const char *name)
{
    static check self;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t pair = 0;
    size_t churn = 0;

    if (!candidate_find(name, &self.on) || !candidate_find(reference_name, &self.reference)) {
        bench_fail("there is no allocator %s", name);
    }
    demand_one_thread(&self, &pair, &churn);
    if (processors >= 2) {
        demand_two_threads(&self, pair, churn);
    }
    if (processors >= SOME_THREADS) {
        demand_some_threads(&self);
    }
    if (processors >= MANY_THREADS) {
        demand_many_threads(&self);
    }
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        measure_once(&self);
        if (count_missed(&self) == 0) {
            break;
        }
    }
    report(&self);
    return count_missed(&self) == 0 ? 0 : 1;
}
