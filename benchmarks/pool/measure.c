/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <stdlib.h>

#include <crmm/core/error.h>

#include "streams.h"
#include "team.h"

/* An entry that is being measured. */
typedef struct running {
    const entry *of;
    result *to;
    subject on;
    team all;
    bool is_open;
    crmm_memory_info before; /* the books of some classes are older than the case */
    driver_calls calls_before;
    double *ns; /* of each round */
    double *per_second;
    size_t rounds;
    uint64_t steps; /* of all rounds */
    size_t blocked; /* rounds that took as long as their streams were held */
} running;

/* ---- a subject and its threads ---- */

static void note_held(running *self)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};

    if (crmm_resource_info(self->on.books, &info) == CRMM_SUCCESS) {
        /* Of old books, what came to them: all blocks are still live. */
        size_t held = self->before.peak_held == 0     ? info.peak_held
                      : info.held > self->before.held ? info.held - self->before.held
                                                      : 0;
        self->to->peak_held = held > self->to->peak_held ? held : self->to->peak_held;
    }
    if (self->all.peak_live > self->to->peak_live) {
        self->to->peak_live = self->all.peak_live;
    }
}

static void close_one(running *self)
{
    note_held(self);
    team_tell(&self->all, self->to);
    driver_calls calls;
    if (self->rounds > 0 && subject_get_calls(&self->on, &calls)) {
        self->to->tells_calls = true;
        self->to->records += (double)(calls.records - self->calls_before.records);
        self->to->queries += (double)(calls.queries - self->calls_before.queries);
        self->to->waits += (double)(calls.waits - self->calls_before.waits);
        self->to->moves += (double)(calls.moves - self->calls_before.moves);
    }
    team_end(&self->all);
    subject_finish(&self->on);
    self->is_open = false;
}

static void open_one(running *self)
{
    const entry *of = self->of;

    self->on = (subject){0};
    if (of->on->create(of->on->name, of->of, &self->on) != CRMM_SUCCESS) {
        (void)snprintf(self->to->why, WHY_SIZE, "%.*s", WHY_SIZE - 1, crmm_last_error()->message);
        return;
    }
    self->before = (crmm_memory_info){.struct_size = sizeof(self->before)};
    if (self->on.is_given || crmm_resource_info(self->on.books, &self->before) != CRMM_SUCCESS) {
        self->before = (crmm_memory_info){0};
    }
    self->is_open = true;
    self->to->is_given = self->on.is_given;
    if (!team_start(&self->all, of->of, self->on.resource, self->to->why)) {
        close_one(self);
        return;
    }
    self->to->is_cut = self->all.is_cut;
    (void)subject_get_calls(&self->on, &self->calls_before);
}

static void do_round(running *self)
{
    round_figures figures;

    if (!self->is_open && self->to->why[0] == '\0') {
        open_one(self);
    }
    if (!self->is_open) {
        return;
    }
    if (!team_round(&self->all, &figures, self->to->why)) {
        close_one(self);
        return;
    }
    self->ns[self->rounds] = figures.ns;
    self->per_second[self->rounds] = figures.per_second;
    self->to->delayed += figures.delayed / (double)self->of->of->rounds;
    self->rounds++;
    self->steps += figures.steps;
    if (self->of->of->is_busy &&
        figures.ns * (double)figures.steps >= STREAMS_HOLD_SECONDS * 0.9e9) {
        self->blocked++;
    }
    if (self->of->of->is_fresh) {
        close_one(self);
    }
}

/* ---- results ---- */

static int compare(const void *a, const void *b)
{
    double first = *(const double *)a;
    double second = *(const double *)b;
    return (first > second) - (first < second);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

static void finish(running *self)
{
    result *to = self->to;

    if (self->is_open) {
        close_one(self);
    }
    if (self->rounds > 0 && to->why[0] == '\0') {
        to->median_ns = median(self->ns, self->rounds);
        to->min_ns = self->ns[0];
        to->per_second = median(self->per_second, self->rounds);
    }
    if (self->steps > 0) {
        to->records /= (double)self->steps;
        to->queries /= (double)self->steps;
        to->waits /= (double)self->steps;
        to->moves /= (double)self->steps;
    }
    if (self->of->of->is_busy) {
        to->figures[to->figure_count++] = (figure){"blocked_rounds", (double)self->blocked};
    }
    free(self->ns);
    free(self->per_second);
}

void measure(const entry *entries, size_t count, result *results)
{
    running *all = worker_zeroed(count, sizeof(*all));
    size_t most_rounds = 0;

    for (size_t i = 0; i < count; i++) {
        size_t rounds = entries[i].of->rounds;
        results[i] = (result){.of = entries[i].of, .allocator = entries[i].on->name};
        all[i] = (running){.of = &entries[i],
                           .to = &results[i],
                           .ns = worker_zeroed(rounds, sizeof(double)),
                           .per_second = worker_zeroed(rounds, sizeof(double))};
        most_rounds = rounds > most_rounds ? rounds : most_rounds;
        /* Warm-ups come before any round: they take their time. */
        if (!entries[i].of->is_fresh) {
            open_one(&all[i]);
        }
    }
    for (size_t round = 0; round < most_rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            if (round < entries[i].of->rounds) {
                do_round(&all[i]);
            }
        }
    }
    /* Before any is closed: books can be those of several. */
    for (size_t i = 0; i < count; i++) {
        if (all[i].is_open) {
            note_held(&all[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        finish(&all[i]);
    }
    free(all);
}
