/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/leaf.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/report.h>
#include <crmm/internal/validate.h>

/* ---- allocation ---- */

static crmm_status enter_in_ledger(crmm_priv_leaf *leaf, size_t bytes, size_t alignment, void *ptr)
{
    if (!crmm_priv_validate() ||
        crmm_priv_ledger_add(&leaf->state->ledger, ptr, bytes, alignment)) {
        return CRMM_SUCCESS;
    }
    (void)leaf->calls->deallocate(leaf, ptr, bytes);
    return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                      "%s: no host memory to keep the books of %zu bytes",
                      crmm_resource_name(&leaf->base), bytes);
}

crmm_status crmm_priv_leaf_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                         void **ptr)
{
    crmm_priv_leaf *leaf = (crmm_priv_leaf *)resource;
    const char *who = crmm_resource_name(resource);
    size_t largest = leaf->calls->largest_alignment;
    void *memory = NULL;
    int previous = -1;

    if (largest != 0 && alignment > largest) {
        return FAIL_BYTES(CRMM_ERROR_UNSUPPORTED, 0, bytes,
                          "%s: alignment %zu is more than the %zu it gives", who, alignment,
                          largest);
    }
    crmm_status status = crmm_priv_cuda_enter_device(crmm_resource_device(resource), &previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = leaf->calls->allocate(leaf, bytes, alignment, &memory);
    crmm_priv_cuda_leave_device(previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = enter_in_ledger(leaf, bytes, alignment, memory);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    crmm_priv_books_add(&leaf->state->books, bytes);
    *ptr = memory;
    return CRMM_SUCCESS;
}

/* Asked first: the allocation itself would kill the capture. */
static crmm_status refuse_captured(const crmm_resource *resource, crmm_stream stream, size_t bytes)
{
    const char *who = crmm_resource_name(resource);
    bool capturing = false;

    int code = crmm_priv_cuda_capturing(stream, &capturing);
    if (code != 0) {
        return crmm_priv_cuda_stream_failed(who, stream, code);
    }
    return capturing
               ? FAIL_BYTES(CRMM_ERROR_UNSUPPORTED, 0, bytes,
                            "%s: stream %p is being captured, which forbids allocating %zu bytes",
                            who, (void *)stream, bytes)
               : CRMM_SUCCESS;
}

crmm_status crmm_priv_leaf_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                    size_t alignment, void **ptr)
{
    int previous = -1;
    int code =
        crmm_priv_cuda_try_enter_for_stream(crmm_resource_device(resource), stream, &previous);

    if (code != 0) {
        return crmm_priv_cuda_check("cudaSetDevice", code);
    }
    crmm_status status = refuse_captured(resource, stream, bytes);
    crmm_priv_cuda_leave_device(previous);
    return status != CRMM_SUCCESS ? status
                                  : crmm_priv_leaf_allocate_sync(resource, bytes, alignment, ptr);
}

/* ---- deallocation ---- */

static crmm_misuse_kind kind_of(int code)
{
    return crmm_priv_cuda_is_forked(code) ? CRMM_MISUSE_FORKED : CRMM_MISUSE_CUDA;
}

static void report_failed_free(crmm_misuse found, const char *call)
{
    found.kind = kind_of(found.native_code);
    crmm_priv_report(found, "%s: %s %p (%zu bytes) failed: %s (%s)", found.resource_name, call,
                     found.ptr, found.bytes, crmm_priv_cuda_error_name(found.native_code),
                     crmm_priv_cuda_error_text(found.native_code));
}

void crmm_priv_leaf_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                    size_t alignment)
{
    crmm_priv_leaf *leaf = (crmm_priv_leaf *)resource;
    bool validate = crmm_priv_validate();

    /* Before the memory goes: another thread may be given the same address at once. */
    if (validate && !crmm_priv_ledger_take(&leaf->state->ledger, resource, ptr, bytes, alignment)) {
        return;
    }
    int code = leaf->calls->deallocate(leaf, ptr, bytes);
    if (code == 0) {
        crmm_priv_books_subtract(&leaf->state->books, bytes);
    } else {
        if (validate) {
            /* It has an entry already, so this needs no memory. */
            (void)crmm_priv_ledger_add(&leaf->state->ledger, ptr, bytes, alignment);
        }
        report_failed_free((crmm_misuse){.native_code = code,
                                         .resource_name = crmm_resource_name(resource),
                                         .ptr = ptr,
                                         .bytes = bytes,
                                         .alignment = alignment},
                           leaf->calls->free_name);
    }
}

/* Have the stream's work done; false: it cannot be, which has been reported. `found` is what is
 * known beforehand. */
static bool wait_for(const crmm_priv_leaf *leaf, crmm_stream stream, crmm_misuse found)
{
    bool capturing = false;

    found.native_code = crmm_priv_cuda_capturing(stream, &capturing);
    if (found.native_code != 0) {
        report_failed_free(found, "asking the stream before freeing");
        return false;
    }
    if (capturing) {
        crmm_priv_report(found, "%s: stream %p is being captured, which forbids freeing %p",
                         found.resource_name, (void *)stream, found.ptr);
        return false;
    }
    /* cudaFree waits for all work of the device that owns the memory, and so for `stream`. */
    found.native_code = leaf->calls->wait_first ? crmm_priv_cuda_wait(stream) : 0;
    if (found.native_code != 0) {
        report_failed_free(found, "waiting for the stream before freeing");
    }
    return found.native_code == 0;
}

void crmm_priv_leaf_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                               size_t alignment)
{
    crmm_misuse found = {.kind = CRMM_MISUSE_UNSUPPORTED,
                         .resource_name = crmm_resource_name(resource),
                         .ptr = ptr,
                         .bytes = bytes,
                         .alignment = alignment};
    int previous = -1;

    found.native_code =
        crmm_priv_cuda_try_enter_for_stream(crmm_resource_device(resource), stream, &previous);
    if (found.native_code != 0) {
        report_failed_free(found, "making its device current before freeing");
        return;
    }
    bool is_done = wait_for((const crmm_priv_leaf *)resource, stream, found);
    crmm_priv_cuda_leave_device(previous);
    if (is_done) {
        crmm_priv_leaf_deallocate_sync(resource, ptr, bytes, alignment);
    }
}

/* ---- the rest ---- */

crmm_status crmm_priv_leaf_trim(crmm_resource *resource, size_t bytes_to_keep, size_t *released)
{
    (void)resource;
    (void)bytes_to_keep;
    *released = 0; /* nothing is held back */
    return CRMM_SUCCESS;
}

crmm_status crmm_priv_leaf_info(const crmm_resource *resource, crmm_memory_info *info)
{
    crmm_priv_books_info(&((const crmm_priv_leaf *)resource)->state->books, info);
    return CRMM_SUCCESS;
}

bool crmm_priv_leaf_is_equal(const crmm_resource *resource, const crmm_resource *other)
{
    (void)resource;
    (void)other;
    return true;
}

void crmm_priv_leaf_finish(crmm_priv_leaf *leaf)
{
    const crmm_priv_books *books = &leaf->state->books;
    const char *who = crmm_resource_name(&leaf->base);

    if (!crmm_priv_validate() && books->allocations != 0) {
        crmm_priv_report(
            (crmm_misuse){.kind = CRMM_MISUSE_LEAK, .resource_name = who, .bytes = books->live},
            "%s: released with %zu allocations of %zu bytes alive", who, books->allocations,
            books->live);
    }
    crmm_priv_ledger_finish(&leaf->state->ledger, &leaf->base);
}

void crmm_priv_leaf_destroy(crmm_resource *resource)
{
    (void)resource;
}
