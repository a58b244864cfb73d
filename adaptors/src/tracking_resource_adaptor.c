/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/tracking_resource_adaptor.h>

#include <inttypes.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/options.h>
#include <crmm/internal/report.h>
#include <crmm/internal/text.h>

#include "adaptor.h"
#include "tracking_label.h"
#include "tracking_stack.h"
#include "tracking_table.h"
#include "tracking_text.h"

enum { MOST_LEAKS_LISTED = 100 };

static const char class_name[] = "tracking_resource_adaptor";

typedef struct tracking {
    crmm_priv_adaptor adaptor;
    crmm_priv_tracking_table table;
    uint64_t epoch; /* atomic; checkpoints so far */
    size_t most_leaks_listed;
    bool captures_stacks;
} tracking;

/* The table has locks, so reading it changes the adaptor. */
static tracking *writable(const crmm_resource *adaptor)
{
    return (tracking *)(uintptr_t)adaptor;
}

/* ---- entries ---- */

/* The operating system is asked once a thread. */
static uint64_t own_thread(void)
{
    static _Thread_local uint64_t id;

    if (id == 0) {
        id = (uint64_t)syscall(SYS_gettid);
    }
    return id;
}

static uint64_t now(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* An entry for what is about to be allocated: all but the address. */
static crmm_priv_tracked make_entry(const tracking *adaptor, crmm_stream stream, size_t bytes,
                                    size_t alignment)
{
    return (crmm_priv_tracked){
        .bytes = bytes,
        .alignment = alignment,
        .stream = stream,
        .thread = own_thread(),
        .time = now(),
        .epoch = __atomic_load_n(&adaptor->epoch, __ATOMIC_RELAXED),
        .label = crmm_priv_tracking_label(),
        .stack = adaptor->captures_stacks ? crmm_priv_stack_capture() : NULL,
    };
}

/* An address has come back that is outstanding. */
__attribute__((noinline, cold)) static void report_stale(const crmm_priv_tracked *stale)
{
    crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_FOREIGN_POINTER,
                                   .resource_name = class_name,
                                   .ptr = stale->ptr,
                                   .bytes = stale->bytes,
                                   .alignment = stale->alignment},
                     "%s: %p (%zu bytes) was given back past the adaptor: its address is handed "
                     "out again",
                     class_name, stale->ptr, stale->bytes);
    crmm_priv_stack_release(stale->stack);
}

/* Enter what upstream has given. false: no memory. */
static bool enter(tracking *adaptor, crmm_priv_tracked *entry, const void *ptr)
{
    crmm_priv_tracked stale;

    entry->ptr = ptr;
    if (!crmm_priv_tracking_table_add(&adaptor->table, entry, &stale)) {
        return false;
    }
    if (stale.ptr != NULL) {
        report_stale(&stale);
    }
    return true;
}

static crmm_status cannot_enter(size_t bytes)
{
    return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                      "%s: no host memory to remember an allocation of %zu bytes", class_name,
                      bytes);
}

/* ---- giving back ---- */

__attribute__((noinline, cold)) static void report_free(crmm_priv_tracking_found found,
                                                        const crmm_priv_tracked *known,
                                                        crmm_misuse misuse)
{
    misuse.resource_name = class_name;
    if (found == CRMM_PRIV_TRACKING_TAKEN_BEFORE) {
        misuse.kind = CRMM_MISUSE_DOUBLE_FREE;
        crmm_priv_report(misuse, "%s: %p was given back twice", class_name, misuse.ptr);
    } else if (found == CRMM_PRIV_TRACKING_UNKNOWN) {
        misuse.kind = CRMM_MISUSE_FOREIGN_POINTER;
        crmm_priv_report(misuse, "%s: %p was not allocated here, or was given back before",
                         class_name, misuse.ptr);
    } else if (known->bytes != misuse.bytes) {
        misuse.kind = CRMM_MISUSE_SIZE_MISMATCH;
        crmm_priv_report(misuse, "%s: %p was allocated with %zu bytes and given back with %zu",
                         class_name, misuse.ptr, known->bytes, misuse.bytes);
    } else {
        misuse.kind = CRMM_MISUSE_ALIGNMENT_MISMATCH;
        crmm_priv_report(
            misuse, "%s: %p was allocated with alignment %zu and given back with alignment %zu",
            class_name, misuse.ptr, known->alignment, misuse.alignment);
    }
}

/* Take a block out of the books; what is wrong with it is reported, and false. */
static bool take(tracking *adaptor, const void *ptr, size_t bytes, size_t alignment,
                 crmm_priv_tracked *known)
{
    crmm_priv_tracking_found found =
        crmm_priv_tracking_table_take(&adaptor->table, ptr, bytes, alignment, known);

    if (found != CRMM_PRIV_TRACKING_TAKEN) {
        report_free(found, known,
                    (crmm_misuse){.ptr = ptr, .bytes = bytes, .alignment = alignment});
        return false;
    }
    crmm_priv_stack_release(known->stack);
    return true;
}

/* ---- operations ---- */

static crmm_status tracking_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                          void **ptr)
{
    tracking *adaptor = (tracking *)resource;
    crmm_priv_tracked entry = make_entry(adaptor, NULL, bytes, alignment);
    void *memory = NULL;

    crmm_status status = crmm_allocate_sync(adaptor->adaptor.upstream, bytes, alignment, &memory);
    if (status == CRMM_SUCCESS && !enter(adaptor, &entry, memory)) {
        crmm_deallocate_sync(adaptor->adaptor.upstream, memory, bytes, alignment);
        status = cannot_enter(bytes);
    }
    if (status != CRMM_SUCCESS) {
        crmm_priv_stack_release(entry.stack);
        return status;
    }
    *ptr = memory;
    return CRMM_SUCCESS;
}

static crmm_status tracking_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                     size_t alignment, void **ptr)
{
    tracking *adaptor = (tracking *)resource;
    crmm_priv_tracked entry = make_entry(adaptor, stream, bytes, alignment);
    void *memory = NULL;

    crmm_status status =
        crmm_allocate(adaptor->adaptor.upstream, stream, bytes, alignment, &memory);
    if (status == CRMM_SUCCESS && !enter(adaptor, &entry, memory)) {
        crmm_deallocate(adaptor->adaptor.upstream, stream, memory, bytes, alignment);
        status = cannot_enter(bytes);
    }
    if (status != CRMM_SUCCESS) {
        crmm_priv_stack_release(entry.stack);
        return status;
    }
    *ptr = memory;
    return CRMM_SUCCESS;
}

/* The entry goes before the memory: from then on another thread may be given the same address. */
static void tracking_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                     size_t alignment)
{
    tracking *adaptor = (tracking *)resource;
    crmm_priv_tracked known;

    if (take(adaptor, ptr, bytes, alignment, &known)) {
        crmm_deallocate_sync(adaptor->adaptor.upstream, ptr, bytes, alignment);
    }
}

static void tracking_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                size_t bytes, size_t alignment)
{
    tracking *adaptor = (tracking *)resource;
    crmm_priv_tracked known;

    if (take(adaptor, ptr, bytes, alignment, &known)) {
        crmm_deallocate(adaptor->adaptor.upstream, stream, ptr, bytes, alignment);
    }
}

static void tracking_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr)
{
    tracking *adaptor = (tracking *)resource;
    crmm_priv_tracked known;

    if (!crmm_resource_has(resource, CRMM_STREAM_ORDERED)) {
        crmm_priv_report(
            (crmm_misuse){.kind = CRMM_MISUSE_PROPERTY, .resource_name = class_name, .ptr = ptr},
            "crmm_deallocate_ptr: %s is not stream-ordered, with pointer %p", class_name, ptr);
        return;
    }
    if (take(adaptor, ptr, 0, 0, &known)) {
        crmm_deallocate(adaptor->adaptor.upstream, stream, ptr, known.bytes, known.alignment);
    }
}

static size_t tracking_describe(const crmm_resource *resource, char *text, size_t size)
{
    tracking *adaptor = writable(resource);
    crmm_priv_text description = crmm_priv_text_begin(text, size);
    size_t count;
    size_t bytes;

    crmm_priv_tracking_table_sum(&adaptor->table, &count, &bytes);
    crmm_priv_text_append(&description, "%s (allocated %zu, outstanding %zu%s)", class_name, bytes,
                          count, adaptor->captures_stacks ? ", with stacks" : "");
    return crmm_priv_describe_over(adaptor->adaptor.upstream, text, size, description.length);
}

/* ---- lists ---- */

static size_t write_list(tracking *adaptor, uint64_t from, uint64_t to, char *start, size_t size)
{
    crmm_priv_text text = crmm_priv_text_begin(start, size);
    crmm_priv_tracked_list list;

    if (!crmm_priv_tracking_table_list(&adaptor->table, from, to, &list)) {
        crmm_priv_text_append(&text, "(no host memory to list them)\n");
        return text.length;
    }
    crmm_priv_tracked_write(&text, &list);
    crmm_priv_tracked_list_finish(&list);
    return text.length;
}

static crmm_status visit(tracking *adaptor, uint64_t from, uint64_t to,
                         crmm_tracking_visitor visitor, void *user_data, const char *who)
{
    crmm_priv_tracked_list list;

    if (!crmm_priv_tracking_table_list(&adaptor->table, from, to, &list)) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory to list the allocations", who);
    }
    for (size_t i = 0; i < list.count; i++) {
        const crmm_priv_tracked *item = &list.items[i];
        const crmm_tracked_allocation allocation = {
            .struct_size = sizeof(allocation),
            .ptr = item->ptr,
            .bytes = item->bytes,
            .alignment = item->alignment,
            .stream = item->stream,
            .thread = item->thread,
            .time = item->time,
            .epoch = item->epoch,
            .label = item->label,
            .stack = item->stack != NULL ? item->stack->addresses : NULL,
            .stack_length = item->stack != NULL ? item->stack->length : 0,
        };
        visitor(&allocation, user_data);
    }
    crmm_priv_tracked_list_finish(&list);
    return CRMM_SUCCESS;
}

/* ---- the end ---- */

static void report_leaks(tracking *adaptor)
{
    crmm_priv_tracked_list list;
    const void *first = NULL;
    size_t count;
    size_t bytes;

    crmm_priv_tracking_table_sum(&adaptor->table, &count, &bytes);
    if (count == 0) {
        return;
    }
    if (crmm_priv_tracking_table_list(&adaptor->table, CRMM_TRACKING_BEGIN, CRMM_TRACKING_NOW,
                                      &list)) {
        first = list.count != 0 ? list.items[0].ptr : NULL;
        for (size_t i = 0; i < list.count && i < adaptor->most_leaks_listed; i++) {
            crmm_priv_tracked_log(class_name, &list.items[i]);
        }
        crmm_priv_tracked_list_finish(&list);
    }
    crmm_priv_report(
        (crmm_misuse){
            .kind = CRMM_MISUSE_LEAK, .resource_name = class_name, .ptr = first, .bytes = bytes},
        "%s: released with %zu allocations of %zu bytes outstanding", class_name, count, bytes);
}

static void tracking_destroy(crmm_resource *resource)
{
    tracking *adaptor = (tracking *)resource;

    report_leaks(adaptor);
    crmm_priv_tracking_table_finish(&adaptor->table);
    crmm_priv_adaptor_destroy(resource);
}

/* Memory goes back to the adaptor that remembers it, so only identity is equality. */
static const crmm_resource_ops tracking_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = tracking_allocate_sync,
    .deallocate_sync = tracking_deallocate_sync,
    .destroy = tracking_destroy,
    .allocate = tracking_allocate,
    .deallocate = tracking_deallocate,
    .deallocate_ptr = tracking_deallocate_ptr,
    .upstream = crmm_priv_adaptor_upstream,
    .describe = tracking_describe,
};

/* ---- public interface ---- */

_Static_assert(sizeof(crmm_tracking_resource_adaptor_options) == 3 * sizeof(size_t),
               "options structs have no padding");
_Static_assert(sizeof(crmm_tracked_allocation) ==
                   4 * sizeof(size_t) + 4 * sizeof(void *) + 3 * sizeof(uint64_t),
               "structs that grow have no padding");

void crmm_tracking_resource_adaptor_options_init(crmm_tracking_resource_adaptor_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

static crmm_status check_stacks(const crmm_tracking_resource_adaptor_options *options)
{
    if (options->capture_stacks > 1) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->capture_stacks is %zu, neither 0 nor 1", class_name,
                    options->capture_stacks);
    }
    if (options->capture_stacks == 1 && !crmm_priv_stack_prepare()) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0,
                    "%s: options->capture_stacks: the C library cannot walk stacks", class_name);
    }
    return CRMM_SUCCESS;
}

crmm_status crmm_tracking_resource_adaptor_create(
    crmm_resource *upstream, const crmm_tracking_resource_adaptor_options *options,
    crmm_resource **out)
{
    crmm_tracking_resource_adaptor_options known;
    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status == CRMM_SUCCESS) {
        status = check_stacks(&known);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }

    tracking *created = crmm_priv_adaptor_create(class_name, &tracking_ops, sizeof(*created),
                                                 upstream, out, &status);
    if (created == NULL) {
        return status;
    }
    if (!crmm_priv_tracking_table_init(&created->table)) {
        crmm_priv_adaptor_destroy(&created->adaptor.base);
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the table", class_name);
    }
    created->captures_stacks = known.capture_stacks != 0;
    created->most_leaks_listed =
        known.most_leaks_listed != 0 ? known.most_leaks_listed : MOST_LEAKS_LISTED;
    *out = &created->adaptor.base;
    return CRMM_SUCCESS;
}

size_t crmm_tracking_resource_adaptor_allocated_bytes(const crmm_resource *adaptor)
{
    size_t count;
    size_t bytes;

    if (!crmm_priv_check_class("crmm_tracking_resource_adaptor_allocated_bytes", adaptor,
                               &tracking_ops)) {
        return 0;
    }
    crmm_priv_tracking_table_sum(&writable(adaptor)->table, &count, &bytes);
    return bytes;
}

size_t crmm_tracking_resource_adaptor_outstanding_count(const crmm_resource *adaptor)
{
    size_t count;
    size_t bytes;

    if (!crmm_priv_check_class("crmm_tracking_resource_adaptor_outstanding_count", adaptor,
                               &tracking_ops)) {
        return 0;
    }
    crmm_priv_tracking_table_sum(&writable(adaptor)->table, &count, &bytes);
    return count;
}

size_t crmm_tracking_resource_adaptor_outstanding_text(const crmm_resource *adaptor, char *text,
                                                       size_t size)
{
    (void)crmm_priv_text_begin(text, size);
    if (!crmm_priv_check_class("crmm_tracking_resource_adaptor_outstanding_text", adaptor,
                               &tracking_ops)) {
        return 0;
    }
    return write_list(writable(adaptor), CRMM_TRACKING_BEGIN, CRMM_TRACKING_NOW, text, size);
}

crmm_status crmm_tracking_resource_adaptor_visit(const crmm_resource *adaptor,
                                                 crmm_tracking_visitor visitor, void *user_data)
{
    const char *who = "crmm_tracking_resource_adaptor_visit";
    crmm_status status = crmm_priv_require_class(who, adaptor, &tracking_ops);

    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (visitor == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: visitor is NULL", who);
    }
    return visit(writable(adaptor), CRMM_TRACKING_BEGIN, CRMM_TRACKING_NOW, visitor, user_data,
                 who);
}

/* ---- checkpoints ---- */

crmm_status crmm_tracking_resource_adaptor_checkpoint(crmm_resource *adaptor, uint64_t *checkpoint)
{
    const char *who = "crmm_tracking_resource_adaptor_checkpoint";
    crmm_status status = crmm_priv_require_class(who, adaptor, &tracking_ops);

    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (checkpoint == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: checkpoint is NULL", who);
    }
    *checkpoint = __atomic_add_fetch(&((tracking *)adaptor)->epoch, 1, __ATOMIC_RELAXED);
    return CRMM_SUCCESS;
}

/* Whether two checkpoints have been taken, in this order. */
static bool are_checkpoints(const tracking *adaptor, uint64_t from, uint64_t to)
{
    uint64_t latest = __atomic_load_n(&adaptor->epoch, __ATOMIC_RELAXED);

    return from <= to && from <= latest && (to <= latest || to == CRMM_TRACKING_NOW);
}

crmm_status crmm_tracking_resource_adaptor_visit_between(const crmm_resource *adaptor,
                                                         uint64_t from, uint64_t to,
                                                         crmm_tracking_visitor visitor,
                                                         void *user_data)
{
    const char *who = "crmm_tracking_resource_adaptor_visit_between";
    crmm_status status = crmm_priv_require_class(who, adaptor, &tracking_ops);

    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (visitor == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: visitor is NULL", who);
    }
    if (!are_checkpoints(writable(adaptor), from, to)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: from %" PRIu64 " to %" PRIu64 " are not checkpoints in their order", who,
                    from, to);
    }
    return visit(writable(adaptor), from, to, visitor, user_data, who);
}

size_t crmm_tracking_resource_adaptor_outstanding_text_between(const crmm_resource *adaptor,
                                                               uint64_t from, uint64_t to,
                                                               char *text, size_t size)
{
    const char *who = "crmm_tracking_resource_adaptor_outstanding_text_between";

    (void)crmm_priv_text_begin(text, size);
    if (!crmm_priv_check_class(who, adaptor, &tracking_ops)) {
        return 0;
    }
    if (!are_checkpoints(writable(adaptor), from, to)) {
        crmm_priv_report(
            (crmm_misuse){.kind = CRMM_MISUSE_INVALID_ARGUMENT, .resource_name = class_name},
            "%s: from %" PRIu64 " to %" PRIu64 " are not checkpoints in their order", who, from,
            to);
        return 0;
    }
    return write_list(writable(adaptor), from, to, text, size);
}
