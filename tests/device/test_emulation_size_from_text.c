/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/size_from_text.h>

#include <cudart_emulated.h>

#include "cuda_support.h"
#include "expect.h"

#define MIB ((size_t)1 << 20)

/* A device with so much free: CUDA itself takes 2 MiB. */
static void set_free(int device, size_t bytes)
{
    cudart_emulated_set_memory(device, bytes + 2 * MIB);
}

static size_t size_of(const char *text)
{
    size_t bytes = 0;

    expect_success(crmm_size_from_text(text, &bytes));
    return bytes;
}

/* User report 26: a share of the device, or all but a part of it, in one text. */
Test(emulation_size_from_text, parts_of_what_is_free_are_exact)
{
    void *ptr = NULL;

    set_free(0, 64 * MIB);
    expect_equal(size_of("leave=8MiB"), 56 * MIB);
    expect_equal(size_of("leave=8MB"), 64 * MIB - 8000000);
    expect_equal(size_of(" leave= 0.5 MiB"), 64 * MIB - MIB / 2);
    expect_equal(size_of("leave=0"), 64 * MIB);
    expect_equal(size_of("leave=1"), 64 * MIB - 256);
    expect_equal(size_of("100%"), 64 * MIB);
    expect_equal(size_of("100.0 %"), 64 * MIB);
    expect_equal(size_of("90%"), 60397824); /* 60397977 */
    expect_equal(size_of("12.5%"), 8 * MIB);
    expect_equal(size_of("0.001%"), 512); /* 671 */
    cuda(cudaMalloc(&ptr, 32 * MIB));
    expect_equal(size_of("50%"), 16 * MIB);
    expect_equal(size_of("leave=8MiB"), 24 * MIB);
    expect_equal(size_of("64MiB"), 64 * MIB); /* who says bytes gets bytes */
    cuda(cudaFree(ptr));
}

Test(emulation_size_from_text, the_current_device_is_asked)
{
    cudart_emulated_set_devices(2);
    set_free(0, 64 * MIB);
    set_free(1, 128 * MIB);
    cuda(cudaSetDevice(1));
    expect_equal(size_of("50%"), 64 * MIB);
}

Test(emulation_size_from_text, a_part_that_comes_to_nothing_is_an_error)
{
    static const char *const texts[] = {"leave=64MiB", "leave=67108609", "leave=1TiB", "0.0001%"};
    size_t bytes = 7;

    set_free(0, 64 * MIB);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        expect_failure(crmm_size_from_text(texts[i], &bytes), CRMM_ERROR_OUT_OF_MEMORY,
                       "comes to nothing: the device has 67108864 bytes free of 69206016");
        expect_message(texts[i]);
    }
    expect_equal(bytes, 7);
}

Test(emulation_size_from_text, cuda_is_asked_only_where_it_is_needed)
{
    size_t bytes = 7;

    cudart_emulated_fail("cudaMemGetInfo", 1, 0, cudaErrorUnknown);
    expect_failure(crmm_size_from_text("80%", &bytes), CRMM_ERROR_CUDA, "cudaMemGetInfo failed");
    expect_equal(crmm_last_error()->native_code, cudaErrorUnknown);
    expect_status(crmm_size_from_text("leave=1", &bytes), CRMM_ERROR_CUDA);
    expect_equal(bytes, 7);
    expect_equal(cudart_emulated_calls("cudaMemGetInfo"), 2);
    expect_equal(size_of("80MiB"), 80 * MIB);
    expect_status(crmm_size_from_text("80x", &bytes), CRMM_ERROR_INVALID_ARGUMENT);
    expect_equal(cudart_emulated_calls("cudaMemGetInfo"), 2);
    expect_equal(cudaGetLastError(), cudaSuccess);
}
