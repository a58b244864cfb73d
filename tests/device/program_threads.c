/* SPDX-License-Identifier: Apache-2.0 */
/* The per-device table from many threads at once: what was got stays valid whatever is set. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/device/cuda_device.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/per_device_resource.h>
#include <crmm/interfaces/resource.h>

enum { THREADS = 8, ROUNDS = 500 };

static size_t made;
static size_t destroyed;

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_threads: %s (%s)\n", what, crmm_last_error()->message);
        exit(1);
    }
}

/* ---- a resource that passes everything on to cuda and dies like any other ---- */

static crmm_status pass_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                 size_t alignment, void **ptr)
{
    (void)resource;
    return crmm_allocate(crmm_cuda_memory_resource(), stream, bytes, alignment, ptr);
}

static void pass_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                            size_t alignment)
{
    (void)resource;
    crmm_deallocate(crmm_cuda_memory_resource(), stream, ptr, bytes, alignment);
}

static crmm_status pass_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                      void **ptr)
{
    (void)resource;
    return crmm_allocate_sync(crmm_cuda_memory_resource(), bytes, alignment, ptr);
}

static void pass_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    crmm_deallocate_sync(crmm_cuda_memory_resource(), ptr, bytes, alignment);
}

static void pass_destroy(crmm_resource *resource)
{
    (void)__atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
    crmm_resource_storage_free(resource);
}

static const crmm_resource_ops pass_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = pass_allocate_sync,
    .deallocate_sync = pass_deallocate_sync,
    .destroy = pass_destroy,
    .allocate = pass_allocate,
    .deallocate = pass_deallocate,
};

static crmm_resource *make_pass(void)
{
    crmm_resource *mr = crmm_resource_storage_allocate(sizeof(struct crmm_resource));
    check(mr != NULL, "storage");
    crmm_resource_init(mr, &pass_ops, "pass", CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    (void)__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
    return mr;
}

/* ---- threads ---- */

static void replace(size_t round)
{
    crmm_resource *previous = NULL;

    if (round % 5 == 0) {
        check(crmm_reset_per_device_resource(0, &previous) == CRMM_SUCCESS, "reset");
    } else {
        crmm_resource *mr = make_pass();
        check(crmm_set_current_device_resource(mr, &previous) == CRMM_SUCCESS, "set");
        crmm_resource_release(&mr);
    }
    crmm_resource_release(&previous);
}

static void use(void)
{
    crmm_device_async_resource_ref ref = {NULL};
    void *ptr = NULL;

    check(crmm_get_current_device_resource_ref(&ref) == CRMM_SUCCESS, "get");
    check(crmm_allocate(ref.resource, CRMM_STREAM_PER_THREAD, 512, 256, &ptr) == CRMM_SUCCESS,
          "allocate");
    crmm_deallocate(ref.resource, CRMM_STREAM_PER_THREAD, ptr, 512, 256);
    crmm_resource_release(&ref.resource);
}

static void *work(void *unused)
{
    (void)unused;
    for (size_t round = 0; round < ROUNDS; round++) {
        replace(round);
        use();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int count = 0;

    crmm_status status = crmm_get_num_cuda_devices(&count);
    if (status != CRMM_SUCCESS && getenv("CRMM_TEST_REQUIRE_GPU") == NULL) {
        (void)fprintf(stderr, "program_threads: skipped: %s\n", crmm_last_error()->message);
        return 77;
    }
    check(status == CRMM_SUCCESS && count > 0, "no device");
    for (int i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, work, NULL) == 0, "thread");
    }
    for (int i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    check(crmm_reset_current_device_resource(NULL) == CRMM_SUCCESS, "last reset");
    check(made > 0 && made == destroyed, "a resource was lost or destroyed twice");
    check(crmm_misuse_count() == 0, "misuse");
    return 0;
}
