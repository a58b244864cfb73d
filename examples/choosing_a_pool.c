/* SPDX-License-Identifier: Apache-2.0 */
/* Four pools: for a whole program, within a bound, as small as can be, and of host memory. */
#include <crmm/crmm.h>

#include <stdio.h>

enum { BLOCKS = 64 };

static const size_t MIB = (size_t)1 << 20;

static int failed(void)
{
    fprintf(stderr, "%s\n", crmm_last_error()->message);
    return 1;
}

/* Blocks of 1 KiB to 1 MiB come and go, and half of them stay; then what the pool holds for them.
 */
static int use(const char *what, crmm_resource *pool)
{
    void *blocks[BLOCKS] = {0};
    crmm_memory_info info = {.struct_size = sizeof(info)};

    for (int i = 0; i < BLOCKS; i++) {
        size_t bytes = MIB >> i % 11;
        if (crmm_allocate(pool, CRMM_STREAM_DEFAULT, bytes, CRMM_DEVICE_ALIGNMENT, &blocks[i])) {
            return failed();
        }
    }
    for (int i = 0; i < BLOCKS; i += 2) { /* usable again on this stream, at once */
        crmm_deallocate(pool, CRMM_STREAM_DEFAULT, blocks[i], MIB >> i % 11, CRMM_DEVICE_ALIGNMENT);
    }
    if (crmm_resource_info(pool, &info)) {
        return failed();
    }
    printf("%-12s holds %8zu KiB, %8zu KiB of it in use\n", what, info.held / 1024,
           info.live / 1024);
    for (int i = 1; i < BLOCKS; i += 2) { /* a pool knows the sizes of its blocks */
        crmm_deallocate_ptr(pool, CRMM_STREAM_DEFAULT, blocks[i]);
    }
    return 0;
}

int main(void)
{
    crmm_resource *all = NULL;
    crmm_resource *bounded = NULL;
    crmm_resource *tight = NULL;
    crmm_resource *pinned = NULL;

    /* Without an upstream: over vmm, where it grows in place. */
    int result =
        crmm_pool_memory_resource_create(NULL, NULL, &all) ||
        crmm_pool_memory_resource_create(NULL,
                                         CRMM_OPTIONS(crmm_pool_memory_resource,
                                                      .initial_pool_size = 16 * MIB,
                                                      .maximum_pool_size = 64 * MIB),
                                         &bounded) ||
        crmm_pool_memory_resource_create(NULL,
                                         CRMM_OPTIONS(crmm_pool_memory_resource, .tight = 1,
                                                      .release_threshold = CRMM_RELEASE_ALL),
                                         &tight) ||
        crmm_pool_memory_resource_create(crmm_pinned_host_memory_resource(), NULL, &pinned);
    result = result ? failed() : 0;
    result = result || use("default", all) || use("bounded", bounded) || use("tight", tight) ||
             use("pinned host", pinned);

    /* More than the bound is an error, and changes nothing. */
    void *ptr = NULL;
    if (result == 0) {
        crmm_status status = crmm_allocate(bounded, CRMM_STREAM_DEFAULT, 65 * MIB, 256, &ptr);
        printf("%s: %s\n", crmm_status_name(status), crmm_last_error()->message);
        result = status == CRMM_ERROR_OUT_OF_MEMORY ? 0 : 1;
    }

    /* From here on everything that names no resource takes its memory from the first one. */
    crmm_device_buffer buffer = {0};
    if (result == 0 && (crmm_set_current_device_resource(all, NULL) ||
                        crmm_device_buffer_init(&buffer, MIB, CRMM_STREAM_DEFAULT, NULL))) {
        result = failed();
    }
    if (result == 0) {
        printf("a buffer of %zu KiB; the pool has taken %zu KiB\n", buffer.size / 1024,
               crmm_pool_memory_resource_pool_size(all) / 1024);
    }
    crmm_device_buffer_finish(&buffer);

    /* Idle memory goes back when a program asks for it. */
    size_t released = 0;
    if (result == 0 &&
        (crmm_reset_current_device_resource(NULL) || crmm_resource_trim(all, 0, &released))) {
        result = failed();
    }
    printf("%zu KiB given back\n", released / 1024);
    crmm_resource_release(&all);
    crmm_resource_release(&bounded);
    crmm_resource_release(&tight);
    crmm_resource_release(&pinned);
    return result;
}
