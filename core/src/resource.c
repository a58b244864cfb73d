/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/resource.h>

#include <string.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/report.h>
#include <crmm/internal/resource.h>
#include <crmm/internal/text.h>

/* Whether a table has an optional slot that is not NULL. */
#define HAS(ops, slot) \
    ((ops)->struct_size > offsetof(crmm_resource_ops, slot) && (ops)->slot != NULL)

/* ---- identity ---- */

crmm_properties crmm_resource_properties(const crmm_resource *resource)
{
    return resource == NULL
               ? 0
               : (crmm_properties)(resource->reserved[CRMM_PRIV_PROPERTIES] & ~CRMM_PRIV_FLAGS);
}

bool crmm_resource_has(const crmm_resource *resource, crmm_properties required)
{
    return resource != NULL && (crmm_resource_properties(resource) & required) == required;
}

const char *crmm_resource_name(const crmm_resource *resource)
{
    return resource == NULL ? "(null)" : (const char *)resource->reserved[CRMM_PRIV_NAME];
}

int crmm_resource_device(const crmm_resource *resource)
{
    return resource == NULL ? -1 : (int)resource->reserved[CRMM_PRIV_DEVICE] - 1;
}

crmm_resource *crmm_resource_upstream(const crmm_resource *resource)
{
    return resource == NULL || !HAS(resource->ops, upstream) ? NULL
                                                             : resource->ops->upstream(resource);
}

bool crmm_resource_is_adaptor(const crmm_resource *resource)
{
    return crmm_resource_upstream(resource) != NULL;
}

bool crmm_resource_is_equal(const crmm_resource *a, const crmm_resource *b)
{
    if (a == b) {
        return true;
    }
    if (a == NULL || b == NULL || a->ops != b->ops) {
        return false;
    }
    return HAS(a->ops, is_equal) && a->ops->is_equal(a, b);
}

/* ---- checks shared with the other modules ---- */

crmm_status crmm_priv_require_properties(const char *who, const crmm_resource *resource,
                                         crmm_properties required)
{
    crmm_properties missing = required & ~crmm_resource_properties(resource);

    if (missing == 0) {
        return CRMM_SUCCESS;
    }
    /* A comma before all but the first. */
    bool host = (missing & CRMM_HOST_ACCESSIBLE) != 0;
    bool device = (missing & CRMM_DEVICE_ACCESSIBLE) != 0;
    bool stream = (missing & CRMM_STREAM_ORDERED) != 0;
    return FAIL(CRMM_ERROR_PROPERTY, 0, "%s: %s is not%s%s%s%s%s", who,
                crmm_resource_name(resource), host ? " host accessible" : "",
                host && (device || stream) ? "," : "", device ? " device accessible" : "",
                device && stream ? "," : "", stream ? " stream-ordered" : "");
}

crmm_status crmm_priv_require_class(const char *who, const crmm_resource *resource,
                                    const crmm_resource_ops *ops)
{
    if (resource != NULL && resource->ops == ops) {
        return CRMM_SUCCESS;
    }
    return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: resource is %s, of another class", who,
                crmm_resource_name(resource));
}

bool crmm_priv_check_class(const char *who, const crmm_resource *resource,
                           const crmm_resource_ops *ops)
{
    if (resource != NULL && resource->ops == ops) {
        return true;
    }
    crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_WRONG_CLASS,
                                   .resource_name = crmm_resource_name(resource)},
                     "%s: resource is %s, of another class", who, crmm_resource_name(resource));
    return false;
}

/* ---- allocation ---- */

/* What the fast path does not serve: bad arguments, 0 bytes, too many, and sync-only resources. */
__attribute__((noinline, cold)) static crmm_status allocate_unusual(const char *call,
                                                                    const crmm_resource *resource,
                                                                    size_t bytes, size_t alignment,
                                                                    void **ptr)
{
    if (resource == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: resource is NULL", call);
    }
    if (ptr == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: ptr is NULL", call);
    }
    if (!crmm_is_pow2(alignment)) {
        return FAIL_BYTES(CRMM_ERROR_INVALID_ARGUMENT, 0, bytes,
                          "%s: alignment %zu is not a power of two", call, alignment);
    }
    if (bytes == 0) {
        *ptr = NULL;
        return CRMM_SUCCESS;
    }
    if (bytes > PTRDIFF_MAX) {
        return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                          "%s: %zu bytes from %s are more than can exist", call, bytes,
                          crmm_resource_name(resource));
    }
    return crmm_priv_require_properties(call, resource, CRMM_STREAM_ORDERED);
}

/* An operation succeeded without giving memory. */
__attribute__((noinline, cold)) static crmm_status nothing_given(const crmm_resource *resource,
                                                                 size_t bytes)
{
    return FAIL_BYTES(CRMM_ERROR_BAD_ALLOC, 0, bytes, "%s gave NULL for %zu bytes",
                      crmm_resource_name(resource), bytes);
}

/* Whether the fast path must not serve a request; 0 bytes wrap to SIZE_MAX. */
static inline bool is_unusual(const crmm_resource *resource, size_t bytes, size_t alignment,
                              void *const *ptr)
{
    return resource == NULL || ptr == NULL || (ptrdiff_t)bytes <= 0 || !crmm_is_pow2(alignment);
}

static inline bool is_stream_ordered(const crmm_resource *resource)
{
    return (resource->reserved[CRMM_PRIV_PROPERTIES] & CRMM_STREAM_ORDERED) != 0;
}

/* What a resource gives that may be anybody's. */
__attribute__((noinline)) static crmm_status allocate_checked(crmm_resource *resource,
                                                              crmm_stream stream, size_t bytes,
                                                              size_t alignment, void **ptr)
{
    void *memory = NULL;

    if (!is_stream_ordered(resource)) {
        return allocate_unusual("crmm_allocate", resource, bytes, alignment, ptr);
    }
    crmm_status status = resource->ops->allocate(resource, stream, bytes, alignment, &memory);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (memory == NULL) {
        return nothing_given(resource, bytes);
    }
    *ptr = memory;
    return CRMM_SUCCESS;
}

crmm_status crmm_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                          size_t alignment, void **ptr)
{
    if (__builtin_expect(is_unusual(resource, bytes, alignment, ptr), 0)) {
        return allocate_unusual("crmm_allocate", resource, bytes, alignment, ptr);
    }
    if (__builtin_expect((resource->reserved[CRMM_PRIV_PROPERTIES] & CRMM_PRIV_KEEPS_RULES) != 0,
                         1)) {
        return resource->ops->allocate(resource, stream, bytes, alignment, ptr);
    }
    return allocate_checked(resource, stream, bytes, alignment, ptr);
}

crmm_status crmm_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment, void **ptr)
{
    void *memory = NULL;

    if (is_unusual(resource, bytes, alignment, ptr)) {
        return allocate_unusual("crmm_allocate_sync", resource, bytes, alignment, ptr);
    }
    crmm_status status = resource->ops->allocate_sync(resource, bytes, alignment, &memory);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (memory == NULL) {
        return nothing_given(resource, bytes);
    }
    *ptr = memory;
    return CRMM_SUCCESS;
}

/* ---- deallocation ---- */

/* What the fast path does not serve: NULL, bad arguments, and sync-only resources. */
__attribute__((noinline, cold)) static void deallocate_unusual(const char *call,
                                                               const crmm_resource *resource,
                                                               const void *ptr, size_t bytes,
                                                               size_t alignment)
{
    crmm_misuse found = {.kind = CRMM_MISUSE_INVALID_ARGUMENT,
                         .resource_name = crmm_resource_name(resource),
                         .ptr = ptr,
                         .bytes = bytes,
                         .alignment = alignment};

    if (ptr == NULL) {
        return;
    }
    if (resource == NULL) {
        crmm_priv_report(found, "%s: resource is NULL, with pointer %p", call, ptr);
    } else if (bytes == 0) {
        crmm_priv_report(found, "%s: %s: %p given back with 0 bytes", call, found.resource_name,
                         ptr);
    } else if (!crmm_is_pow2(alignment)) {
        crmm_priv_report(found, "%s: %s: %p given back with alignment %zu, not a power of two",
                         call, found.resource_name, ptr, alignment);
    } else {
        found.kind = CRMM_MISUSE_PROPERTY;
        crmm_priv_report(found, "%s: %s is not stream-ordered, with pointer %p", call,
                         found.resource_name, ptr);
    }
}

void crmm_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                     size_t alignment)
{
    if (ptr == NULL) {
        return;
    }
    if (resource == NULL || !crmm_is_pow2(alignment) || bytes == 0 ||
        !is_stream_ordered(resource)) {
        deallocate_unusual("crmm_deallocate", resource, ptr, bytes, alignment);
        return;
    }
    resource->ops->deallocate(resource, stream, ptr, bytes, alignment);
}

void crmm_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    if (ptr == NULL || resource == NULL || bytes == 0 || !crmm_is_pow2(alignment)) {
        deallocate_unusual("crmm_deallocate_sync", resource, ptr, bytes, alignment);
        return;
    }
    resource->ops->deallocate_sync(resource, ptr, bytes, alignment);
}

void crmm_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr)
{
    if (ptr == NULL) {
        return;
    }
    if (resource == NULL) {
        deallocate_unusual("crmm_deallocate_ptr", resource, ptr, 0, 0);
        return;
    }
    if (HAS(resource->ops, deallocate_ptr)) {
        resource->ops->deallocate_ptr(resource, stream, ptr);
        return;
    }
    crmm_priv_report(
        (crmm_misuse){.kind = CRMM_MISUSE_UNSUPPORTED,
                      .resource_name = crmm_resource_name(resource),
                      .ptr = ptr},
        "crmm_deallocate_ptr: %s keeps no sizes, so %p must be given back with its own",
        crmm_resource_name(resource), ptr);
}

/* ---- description and figures ---- */

size_t crmm_priv_describe_over(const crmm_resource *upstream, char *text, size_t size,
                               size_t length)
{
    crmm_priv_text to = {.start = text, .size = size, .length = length};

    crmm_priv_text_append(&to, " over ");
    bool room = to.length < size;
    return to.length + crmm_resource_describe(upstream, room ? text + to.length : NULL,
                                              room ? size - to.length : 0);
}

size_t crmm_resource_describe(const crmm_resource *resource, char *text, size_t size)
{
    if (text == NULL) {
        size = 0;
    }
    if (resource != NULL && HAS(resource->ops, describe)) {
        return resource->ops->describe(resource, text, size);
    }
    crmm_priv_text to = crmm_priv_text_begin(text, size);
    crmm_priv_text_append(&to, "%s", crmm_resource_name(resource));
    const crmm_resource *upstream = crmm_resource_upstream(resource);
    return upstream == NULL ? to.length : crmm_priv_describe_over(upstream, text, size, to.length);
}

crmm_status crmm_resource_trim(crmm_resource *resource, size_t bytes_to_keep, size_t *released)
{
    size_t given_back = 0;

    if (resource == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_resource_trim: resource is NULL");
    }
    if (HAS(resource->ops, trim)) {
        crmm_status status = resource->ops->trim(resource, bytes_to_keep, &given_back);
        if (status != CRMM_SUCCESS) {
            return status;
        }
    } else {
        crmm_resource *upstream = crmm_resource_upstream(resource);
        if (upstream != NULL) {
            return crmm_resource_trim(upstream, bytes_to_keep, released);
        }
    }
    if (released != NULL) {
        *released = given_back;
    }
    return CRMM_SUCCESS;
}

crmm_status crmm_resource_info(const crmm_resource *resource, crmm_memory_info *info)
{
    crmm_memory_info all = {.struct_size = sizeof(all)};

    if (resource == NULL || info == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_resource_info: %s is NULL",
                    resource == NULL ? "resource" : "info");
    }
    size_t size = info->struct_size;
    if (size < sizeof(size)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "crmm_resource_info: info->struct_size is %zu; set it to sizeof(*info)", size);
    }

    const crmm_resource *books = resource;
    while (books != NULL && !HAS(books->ops, info)) {
        books = crmm_resource_upstream(books);
    }
    if (books == NULL) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0, "crmm_resource_info: %s keeps no figures",
                    crmm_resource_name(resource));
    }
    crmm_status status = books->ops->info(books, &all);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    all.struct_size = size;
    memcpy(info, &all, size < sizeof(all) ? size : sizeof(all));
    return CRMM_SUCCESS;
}
