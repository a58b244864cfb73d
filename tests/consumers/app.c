/* SPDX-License-Identifier: Apache-2.0 */
/* A program outside the project: one call into each module, whatever runtime is below. */
#include <crmm/crmm.h>

#include <stdio.h>
#include <string.h>

static int fail(const char *what)
{
    fprintf(stderr, "app: %s: %s\n", what, crmm_last_error()->message);
    return 1;
}

int main(void)
{
    printf("crmm %s, CUDA runtime: %s\n", crmm_version(), crmm_cuda_runtime_name());

    crmm_resource *heap = crmm_malloc_memory_resource();
    void *block = NULL;
    if (crmm_allocate_sync(heap, 1000, 64, &block) != CRMM_SUCCESS) {
        return fail("malloc_memory_resource");
    }
    memset(block, 1, 1000);
    crmm_deallocate_sync(heap, block, 1000, 64);

    crmm_resource *current = NULL;
    if (crmm_get_current_device_resource(&current) != CRMM_SUCCESS) {
        return fail("the current device's resource");
    }
    crmm_device_buffer buffer = {0};
    if (crmm_device_buffer_init(&buffer, 4096, CRMM_STREAM_DEFAULT, current) != CRMM_SUCCESS) {
        return fail("device_buffer");
    }
    crmm_device_buffer_finish(&buffer);
    crmm_resource_release(&current);

    if (crmm_align_up(1000, 256) != 1024) {
        return fail("an inline function");
    }
    return crmm_misuse_count() == 0 ? 0 : fail("misuse");
}
