/* SPDX-License-Identifier: Apache-2.0 */
#include "tracking_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include <crmm/internal/log.h>

/* One line without its end. */
static void append_allocation(crmm_priv_text *text, const crmm_priv_tracked *allocation)
{
    time_t seconds = (time_t)(allocation->time / 1000000000);
    struct tm date = {0};
    char stamp[32] = "";

    (void)gmtime_r(&seconds, &date);
    (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &date);
    crmm_priv_text_append(
        text,
        "%p: %zu B, alignment %zu, stream 0x%" PRIxPTR ", thread %" PRIu64 ", %s.%06" PRIu64 "Z",
        allocation->ptr, allocation->bytes, allocation->alignment, (uintptr_t)allocation->stream,
        allocation->thread, stamp, allocation->time % 1000000000 / 1000);
    if (allocation->label != NULL) {
        crmm_priv_text_append(text, ", label %s", allocation->label);
    }
}

/* One call of a stack, without an end of line; `symbols` may be NULL. */
static void append_call(crmm_priv_text *text, const crmm_priv_stack *stack, char *const *symbols,
                        size_t index)
{
    if (symbols != NULL) {
        crmm_priv_text_append(text, "    #%zu %s", index, symbols[index]);
    } else {
        crmm_priv_text_append(text, "    #%zu %p", index, stack->addresses[index]);
    }
}

static void append_stack(crmm_priv_text *text, const crmm_priv_stack *stack)
{
    char **symbols = crmm_priv_stack_symbols(stack);

    for (size_t i = 0; i < stack->length; i++) {
        append_call(text, stack, symbols, i);
        crmm_priv_text_append(text, "\n");
    }
    free((void *)symbols);
}

void crmm_priv_tracked_write(crmm_priv_text *text, const crmm_priv_tracked_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        append_allocation(text, &list->items[i]);
        crmm_priv_text_append(text, "\n");
        if (list->items[i].stack != NULL) {
            append_stack(text, list->items[i].stack);
        }
    }
}

/* The log takes one line at a time. */
void crmm_priv_tracked_log(const char *who, const crmm_priv_tracked *leak)
{
    char line[512];
    crmm_priv_text text = crmm_priv_text_begin(line, sizeof(line));

    append_allocation(&text, leak);
    LOG(CRMM_LOG_LEVEL_ERROR, "%s: not given back: %s", who, line);
    if (leak->stack == NULL) {
        return;
    }
    char **symbols = crmm_priv_stack_symbols(leak->stack);
    for (size_t i = 0; i < leak->stack->length; i++) {
        text = crmm_priv_text_begin(line, sizeof(line));
        append_call(&text, leak->stack, symbols, i);
        LOG(CRMM_LOG_LEVEL_ERROR, "%s: %s", who, line);
    }
    free((void *)symbols);
}
