/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels are kept to the end of the process, each text once, so that an allocation can carry one
 * without a copy of its own.
 */
#include "tracking_label.h"

#include <stdlib.h>
#include <string.h>

#include <crmm/adaptors/tracking_resource_adaptor.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/lock.h>

typedef struct kept_label {
    struct kept_label *next;
    char text[];
} kept_label;

static crmm_priv_lock lock = CRMM_PRIV_LOCK_INITIALIZER;
static kept_label *labels;

static _Thread_local const char *current;

const char *crmm_priv_tracking_label(void)
{
    return current;
}

static kept_label *make_label(const char *text)
{
    size_t size = strlen(text) + 1;
    kept_label *made = malloc(sizeof(*made) + size);

    if (made != NULL) {
        memcpy(made->text, text, size);
        made->next = labels;
        labels = made;
    }
    return made;
}

/* The one copy of a text; NULL: no memory. */
static const char *keep(const char *text)
{
    crmm_priv_lock_acquire(&lock);
    kept_label *kept = labels;
    while (kept != NULL && strcmp(kept->text, text) != 0) {
        kept = kept->next;
    }
    if (kept == NULL) {
        kept = make_label(text);
    }
    crmm_priv_lock_release(&lock);
    return kept != NULL ? kept->text : NULL;
}

crmm_status crmm_tracking_resource_adaptor_set_label(const char *label, const char **previous)
{
    const char *kept = label != NULL && label != current ? keep(label) : label;

    if (label != NULL && kept == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0,
                    "crmm_tracking_resource_adaptor_set_label: no host memory for the label");
    }
    if (previous != NULL) {
        *previous = current;
    }
    current = kept;
    return CRMM_SUCCESS;
}
