/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/misuse.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <crmm/core/error.h>
#include <crmm/internal/lock.h>
#include <crmm/internal/report.h>

static crmm_priv_lock lock = CRMM_PRIV_LOCK_INITIALIZER;
static crmm_misuse_handler handler;
static void *handler_data;
static uint64_t count;

/* Whether this thread is inside the handler. */
static _Thread_local bool delivering;

void crmm_set_misuse_handler(crmm_misuse_handler new_handler, void *user_data)
{
    crmm_priv_lock_acquire(&lock);
    handler = new_handler;
    handler_data = user_data;
    crmm_priv_lock_release(&lock);
}

uint64_t crmm_misuse_count(void)
{
    return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

static void print(const crmm_misuse *misuse)
{
    (void)fprintf(stderr, "crmm: misuse: %s\n",
                  misuse->message != NULL ? misuse->message : "no description");
}

static void deliver(const crmm_misuse *misuse)
{
    crmm_priv_lock_acquire(&lock);
    crmm_misuse_handler current = handler;
    void *data = handler_data;
    crmm_priv_lock_release(&lock);

    if (current == NULL) {
        print(misuse);
        return;
    }
    /* What the handler does is not a failure of the call that is reported, nor of one that reports
     * while it returns another failure. */
    crmm_error record = *crmm_last_error();
    delivering = true;
    current(misuse, data);
    delivering = false;
    *(crmm_error *)crmm_last_error() = record;
}

void crmm_report_misuse(const crmm_misuse *misuse)
{
    if (misuse == NULL) {
        return;
    }
    (void)__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    if (delivering) {
        return;
    }

    /* The caller's struct may be of another version. */
    crmm_misuse known = {0};
    size_t size = misuse->struct_size < sizeof(known) ? misuse->struct_size : sizeof(known);
    memcpy(&known, misuse, size);
    known.struct_size = sizeof(known);
    deliver(&known);
}

void crmm_priv_report(crmm_misuse found, const char *format, ...)
{
    char message[256];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);

    found.struct_size = sizeof(found);
    found.message = message;
    crmm_report_misuse(&found);
}
