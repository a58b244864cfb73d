/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens while a program ends: an exit handler registered before the first use of CUDA runs
 * after the runtime has unloaded, and memory given back there is left to the end, silently.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <crmm/containers/device_buffer.h>
#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/device/cuda_device.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/per_device_resource.h>

static void *block;
static crmm_device_buffer buffer;

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_exit: %s (%s)\n", what, crmm_last_error()->message);
        _exit(1);
    }
}

static void late(void)
{
    void *ptr = NULL;

    crmm_deallocate(crmm_cuda_memory_resource(), NULL, block, 4096, 256);
    crmm_device_buffer_finish(&buffer);
    check(crmm_misuse_count() == 0, "misuse reported while the program ends");
    check(crmm_allocate_sync(crmm_cuda_memory_resource(), 4096, 256, &ptr) == CRMM_ERROR_BAD_ALLOC,
          "an allocation did not fail");
    (void)puts("program_exit: the late handler has run");
    (void)fflush(stdout);
}

int main(void)
{
    crmm_status status;
    int devices = 0;

    check(atexit(late) == 0, "atexit");
    if (crmm_get_num_cuda_devices(&devices) != CRMM_SUCCESS &&
        getenv("CRMM_TEST_REQUIRE_GPU") == NULL) {
        (void)fprintf(stderr, "program_exit: skipped: %s\n", crmm_last_error()->message);
        _exit(77);
    }
    status = crmm_allocate(crmm_cuda_memory_resource(), NULL, 4096, 256, &block);
    check(status == CRMM_SUCCESS, "allocate");
    check(crmm_device_buffer_init(&buffer, 4096, NULL, NULL) == CRMM_SUCCESS, "buffer");
    return 0;
}
