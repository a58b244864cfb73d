/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/error.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <crmm/internal/fail.h>

static _Thread_local crmm_error record;

const crmm_error *crmm_last_error(void)
{
    return &record;
}

/* The record, to be written. It is reached through the public function, so that two copies of the
 * library in one process that share its public functions share the record as well. */
static crmm_error *begin(crmm_status status, int native_code, size_t requested_bytes)
{
    crmm_error *error = (crmm_error *)crmm_last_error();

    error->status = status;
    error->native_code = native_code;
    error->requested_bytes = requested_bytes;
    error->live_bytes = 0;
    error->cached_bytes = 0;
    error->pending_bytes = 0;
    error->largest_free_bytes = 0;
    return error;
}

crmm_status crmm_set_last_error(crmm_status status, int native_code, const char *message)
{
    crmm_priv_fail(status, native_code, 0, "%s",
                   message != NULL ? message : crmm_status_string(status));
    return status;
}

void crmm_priv_note_live_bytes(size_t live_bytes)
{
    ((crmm_error *)crmm_last_error())->live_bytes = live_bytes;
}

void crmm_priv_note_memory(size_t live_bytes, size_t cached_bytes, size_t pending_bytes,
                           size_t largest_free_bytes)
{
    crmm_error *error = (crmm_error *)crmm_last_error();

    error->live_bytes = live_bytes;
    error->cached_bytes = cached_bytes;
    error->pending_bytes = pending_bytes;
    error->largest_free_bytes = largest_free_bytes;
}

void crmm_priv_restore_error(const crmm_error *copy)
{
    *(crmm_error *)crmm_last_error() = *copy;
}

void crmm_priv_fail_for(size_t requested_bytes, const char *format, ...)
{
    crmm_error *error = (crmm_error *)crmm_last_error();
    char message[sizeof(error->message)];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);

    if (length >= 0 && (size_t)length < sizeof(message)) {
        (void)snprintf(message + length, sizeof(message) - (size_t)length, "%s", error->message);
    }
    memcpy(error->message, message, sizeof(message));
    error->requested_bytes = requested_bytes;
}

void crmm_priv_fail(crmm_status status, int native_code, size_t requested_bytes, const char *format,
                    ...)
{
    /* Formatted aside first: an argument may be the message that is being replaced. */
    char message[sizeof(((crmm_error *)0)->message)];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);

    crmm_error *error = begin(status, native_code, requested_bytes);
    (void)snprintf(error->message, sizeof(error->message), "%s", message);
}
