/* SPDX-License-Identifier: Apache-2.0 */
/* A memory resource of one's own: an adaptor that counts what passes through it. */
#include <crmm/crmm.h>
#include <crmm/interfaces/resource.h>

#include <stdatomic.h>
#include <stdio.h>

typedef struct counting_resource {
    crmm_resource base; /* comes first */
    crmm_resource *upstream;
    atomic_size_t calls; /* several threads may allocate at a time */
} counting_resource;

static crmm_status counting_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                          void **ptr)
{
    counting_resource *self = (counting_resource *)resource;
    atomic_fetch_add(&self->calls, 1);
    /* A failure has been described where it happened; its status is passed on. */
    return crmm_allocate_sync(self->upstream, bytes, alignment, ptr);
}

static void counting_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                     size_t alignment)
{
    crmm_deallocate_sync(((counting_resource *)resource)->upstream, ptr, bytes, alignment);
}

static crmm_resource *counting_upstream(const crmm_resource *resource)
{
    return ((const counting_resource *)resource)->upstream;
}

static void counting_destroy(crmm_resource *resource)
{
    crmm_resource_release(&((counting_resource *)resource)->upstream);
    crmm_resource_storage_free(resource);
}

/* The table is the class. What it leaves out has a default: trim and info go to the upstream. */
static const crmm_resource_ops counting_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = counting_allocate_sync,
    .deallocate_sync = counting_deallocate_sync,
    .destroy = counting_destroy,
    .upstream = counting_upstream,
};

static crmm_status counting_create(crmm_resource *upstream, crmm_resource **out)
{
    counting_resource *self = crmm_resource_storage_allocate(sizeof(*self));
    if (self == NULL) {
        return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 0, "no memory for a counter");
    }
    /* No stream-ordered operations above, so that property is left out. */
    crmm_properties properties = crmm_resource_properties(upstream);
    crmm_resource_init(&self->base, &counting_ops, "counting_resource",
                       properties & ~(crmm_properties)CRMM_STREAM_ORDERED);
    crmm_resource_bind_device(&self->base, crmm_resource_device(upstream));
    self->upstream = crmm_resource_retain(upstream);
    *out = &self->base;
    return CRMM_SUCCESS;
}

int main(void)
{
    crmm_resource *counting = NULL;
    void *block = NULL;
    if (counting_create(crmm_malloc_memory_resource(), &counting) ||
        crmm_allocate_sync(counting, 1000, CRMM_HOST_ALIGNMENT, &block)) {
        fprintf(stderr, "%s\n", crmm_last_error()->message);
        crmm_resource_release(&counting);
        return 1;
    }
    crmm_deallocate_sync(counting, block, 1000, CRMM_HOST_ALIGNMENT);

    char text[200];
    crmm_resource_describe(counting, text, sizeof(text));
    printf("%s: %zu call\n", text, atomic_load(&((counting_resource *)counting)->calls));
    crmm_resource_release(&counting);
    return 0;
}
