/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_STATISTICS_SCOPES_H
#define CRMM_ADAPTORS_SRC_STATISTICS_SCOPES_H

#include <stdbool.h>

#include <crmm/core/resource.h>
#include <crmm/internal/lock.h>

#include "statistics_counters.h"

typedef struct crmm_priv_scope_record crmm_priv_scope_record;

/* What the scopes of one adaptor came to, by name. Thread-safety: safe. */
typedef struct crmm_priv_scopes {
    crmm_priv_lock lock;
    crmm_priv_scope_record *first; /* in the names' order; never removed, so they can be lent */
} crmm_priv_scopes;

/* An open scope of a thread. */
typedef struct crmm_priv_scope {
    const crmm_resource *adaptor;
    crmm_priv_scope_record *record;
    crmm_priv_counter_pair counted;
    struct crmm_priv_scope *outer; /* of any adaptor */
} crmm_priv_scope;

/* The calling thread's; NULL: none is open. */
extern _Thread_local crmm_priv_scope *crmm_priv_innermost_scope;

/* The calling thread's innermost scope of an adaptor, or NULL. */
static inline crmm_priv_scope *crmm_priv_scope_of(const crmm_resource *adaptor)
{
    crmm_priv_scope *scope = crmm_priv_innermost_scope;

    while (scope != NULL && scope->adaptor != adaptor) {
        scope = scope->outer;
    }
    return scope;
}

void crmm_priv_scopes_init(crmm_priv_scopes *scopes);
void crmm_priv_scopes_finish(crmm_priv_scopes *scopes);

/* Open a scope. false: no memory. */
bool crmm_priv_scope_begin(crmm_priv_scopes *scopes, const crmm_resource *adaptor,
                           const char *name);

/* Close the innermost scope of an adaptor; `*counted` is what it counted. false: there is none. */
bool crmm_priv_scope_end(crmm_priv_scopes *scopes, const crmm_resource *adaptor,
                         crmm_priv_counter_pair *counted);

/*
 * The figures of the record after `previous`, or of the first one for NULL; `previous` becomes that
 * record. false: there is none.
 */
bool crmm_priv_scopes_next(crmm_priv_scopes *scopes, crmm_priv_scope_record **previous,
                           crmm_statistics_scope *figures);

#endif
