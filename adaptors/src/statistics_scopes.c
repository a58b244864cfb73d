/* SPDX-License-Identifier: Apache-2.0 */
#include "statistics_scopes.h"

#include <stdlib.h>
#include <string.h>

struct crmm_priv_scope_record {
    crmm_statistics_scope figures;
    crmm_priv_scope_record *next;
    char name[]; /* what `figures` points to */
};

_Thread_local crmm_priv_scope *crmm_priv_innermost_scope;

/* ---- records ---- */

void crmm_priv_scopes_init(crmm_priv_scopes *scopes)
{
    *scopes = (crmm_priv_scopes){.lock = CRMM_PRIV_LOCK_INITIALIZER};
}

void crmm_priv_scopes_finish(crmm_priv_scopes *scopes)
{
    while (scopes->first != NULL) {
        crmm_priv_scope_record *record = scopes->first;
        scopes->first = record->next;
        free(record);
    }
    crmm_priv_lock_forget(&scopes->lock);
}

static crmm_priv_scope_record *make_record(const char *name)
{
    size_t size = strlen(name) + 1;
    crmm_priv_scope_record *record = calloc(1, sizeof(*record) + size);

    if (record != NULL) {
        memcpy(record->name, name, size);
        record->figures.struct_size = sizeof(record->figures);
        record->figures.name = record->name;
    }
    return record;
}

/* The record of a name, made at its first use; NULL: no memory. */
static crmm_priv_scope_record *find_record(crmm_priv_scopes *scopes, const char *name)
{
    crmm_priv_lock_acquire(&scopes->lock);
    crmm_priv_scope_record **at = &scopes->first;
    while (*at != NULL && strcmp((*at)->name, name) < 0) {
        at = &(*at)->next;
    }
    crmm_priv_scope_record *record = *at;
    if (record == NULL || strcmp(record->name, name) != 0) {
        record = make_record(name);
        if (record != NULL) {
            record->next = *at;
            *at = record;
        }
    }
    crmm_priv_lock_release(&scopes->lock);
    return record;
}

static void raise_to(int64_t *peak, int64_t value)
{
    if (value > *peak) {
        *peak = value;
    }
}

static void enter(crmm_priv_scopes *scopes, crmm_statistics_scope *figures,
                  const crmm_priv_counter_pair *counted)
{
    crmm_priv_lock_acquire(&scopes->lock);
    figures->calls++;
    raise_to(&figures->peak_bytes, counted->bytes.peak);
    raise_to(&figures->peak_allocations, counted->allocations.peak);
    figures->total_bytes = crmm_priv_saturated(figures->total_bytes, counted->bytes.total);
    figures->total_allocations =
        crmm_priv_saturated(figures->total_allocations, counted->allocations.total);
    crmm_priv_lock_release(&scopes->lock);
}

bool crmm_priv_scopes_next(crmm_priv_scopes *scopes, crmm_priv_scope_record **previous,
                           crmm_statistics_scope *figures)
{
    crmm_priv_lock_acquire(&scopes->lock);
    crmm_priv_scope_record *record = *previous != NULL ? (*previous)->next : scopes->first;
    if (record != NULL) {
        *figures = record->figures;
    }
    crmm_priv_lock_release(&scopes->lock);
    *previous = record;
    return record != NULL;
}

/* ---- open scopes ---- */

bool crmm_priv_scope_begin(crmm_priv_scopes *scopes, const crmm_resource *adaptor, const char *name)
{
    crmm_priv_scope *scope = calloc(1, sizeof(*scope));
    if (scope == NULL) {
        return false;
    }
    scope->adaptor = adaptor;
    scope->record = find_record(scopes, name);
    if (scope->record == NULL) {
        free(scope);
        return false;
    }
    scope->outer = crmm_priv_innermost_scope;
    crmm_priv_innermost_scope = scope;
    return true;
}

bool crmm_priv_scope_end(crmm_priv_scopes *scopes, const crmm_resource *adaptor,
                         crmm_priv_counter_pair *counted)
{
    crmm_priv_scope **at = &crmm_priv_innermost_scope;
    while (*at != NULL && (*at)->adaptor != adaptor) {
        at = &(*at)->outer;
    }
    crmm_priv_scope *ended = *at;
    if (ended == NULL) {
        return false;
    }
    *at = ended->outer;
    *counted = ended->counted;
    enter(scopes, &ended->record->figures, counted);

    crmm_priv_scope *outer = crmm_priv_scope_of(adaptor);
    if (outer != NULL) {
        crmm_priv_counter_pair_merge(&outer->counted, counted);
    }
    free(ended);
    return true;
}
