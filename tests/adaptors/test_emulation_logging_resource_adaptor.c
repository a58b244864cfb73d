/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/logging_resource_adaptor.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cudart_emulated.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"

static char written[4096];
static size_t length;

static bool take(const char *data, size_t size, void *user_data)
{
    (void)user_data;
    cr_assert(length + size < sizeof(written));
    memcpy(written + length, data, size);
    length += size;
    return true;
}

static void expect_not_named(const char *name, const char *message)
{
    crmm_resource *mr = NULL;

    expect_failure(crmm_logging_resource_adaptor_create(
                       crmm_cuda_memory_resource(),
                       CRMM_OPTIONS(crmm_logging_resource_adaptor, .file_name = name), &mr),
                   CRMM_ERROR_CUDA, message);
    cr_assert(mr == NULL);
    expect_equal(cudaGetLastError(), cudaSuccess);
}

Test(emulation_logging_resource_adaptor, a_name_needs_the_device_that_it_asks_for)
{
    cudart_emulated_fail("cudaGetDeviceProperties", 1, 1, cudaErrorUnknown);
    expect_not_named(
        "/tmp/crmm-%u.csv",
        "logging_resource_adaptor: CUDA cannot tell the device for %u in the file name "
        "/tmp/crmm-%u.csv: cudaErrorUnknown");
    cudart_emulated_fail("cudaGetDevice", 1, 1, cudaErrorNoDevice);
    expect_not_named("/tmp/crmm-%d.csv", "for %d in the file name /tmp/crmm-%d.csv");
    expect_equal(crmm_last_error()->native_code, cudaErrorNoDevice);
}

/* The log of a program goes on where the device has no name. */
Test(emulation_logging_resource_adaptor, a_header_without_the_uuid_has_zeros)
{
    static const char zeros[16];
    crmm_resource *mr = NULL;

    cudart_emulated_fail("cudaGetDeviceProperties", 1, 1, cudaErrorUnknown);
    expect_success(crmm_logging_resource_adaptor_create(
        crmm_cuda_memory_resource(),
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .write = take, .binary = 1), &mr));
    expect_equal(length, 64);
    cr_assert(memcmp(written + 40, zeros, sizeof(zeros)) == 0);
    expect_equal(crmm_last_error()->status, CRMM_SUCCESS);
    expect_equal(cudaGetLastError(), cudaSuccess);
    crmm_resource_release(&mr);
}

Test(emulation_logging_resource_adaptor, host_memory_and_text_ask_cuda_nothing)
{
    crmm_resource *mr = NULL;

    expect_success(crmm_logging_resource_adaptor_create(
        crmm_malloc_memory_resource(),
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .write = take, .binary = 1), &mr));
    crmm_resource_release(&mr);
    expect_success(crmm_logging_resource_adaptor_create(
        crmm_cuda_memory_resource(), CRMM_OPTIONS(crmm_logging_resource_adaptor, .write = take),
        &mr));
    crmm_resource_release(&mr);
    expect_equal(cudart_emulated_calls(NULL), 0);
}

/* User report 70: an allocation that CUDA refuses is the last row. */
Test(emulation_logging_resource_adaptor, what_cuda_refuses_has_a_row_and_keeps_its_error)
{
    crmm_resource *mr = NULL;
    void *ptr = NULL;

    expect_success(crmm_logging_resource_adaptor_create(
        crmm_cuda_memory_resource(),
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .write = take, .auto_flush = 1), &mr));
    expect_failure(crmm_allocate(mr, NULL, (size_t)1 << 50, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "cudaMalloc of 1125899906842624 bytes failed");
    expect_equal(crmm_last_error()->native_code, cudaErrorMemoryAllocation);
    cr_assert(strstr(written, ",allocate failure,(nil),1125899906842624,0\n") != NULL);
    crmm_resource_release(&mr);
}
