/* SPDX-License-Identifier: Apache-2.0 */
/* User report 87: memory of virtual memory management could not be shared, and failed deep in a
 * transport. Here the importer is the same process, which CUDA allows. */
#include <crmm/device/pool_memory_resource.h>

#include <unistd.h>

#include <crmm/core/alignment.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "import_support.h"
#include "misuse_recorder.h"
#include "pool_support.h"

enum { FILES = CRMM_EXPORT_FILE_DESCRIPTOR };

/* The handle at an address is exported, and reaches no further than the pool's own memory. */
static crmm_pool_export exported(const crmm_resource *pool, const char *ptr)
{
    crmm_pool_export out = {.struct_size = sizeof(out)};
    void *chunk = NULL;
    size_t chunk_bytes = 0;

    expect_success(crmm_pool_memory_resource_export(pool, ptr, FILES, &out));
    cr_assert(out.file_descriptor >= 0);
    cr_assert(out.offset < out.bytes && (char *)out.base + out.offset == ptr);
    expect_success(crmm_pool_memory_resource_chunk(pool, ptr, &chunk, &chunk_bytes));
    cr_assert((char *)out.base >= (char *)chunk &&
              (char *)out.base + out.bytes <= (char *)chunk + chunk_bytes);
    for (size_t i = 0; i < sizeof(out.fabric); i++) {
        expect_equal(out.fabric[i], 0);
    }
    return out;
}

/* Whoever imports the handles of a block, one after the other, reads the block. */
static void expect_readable(const crmm_resource *pool, char *block, int byte, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        crmm_pool_export part = exported(pool, block + done);
        char *mapped = import_handle(&part, FILES);
        cuda(cudaDeviceSynchronize());
        size_t here =
            part.bytes - part.offset < bytes - done ? part.bytes - part.offset : bytes - done;
        cr_assert(mapped != (char *)part.base && device_has(mapped + part.offset, byte, here));
        unmap_import(mapped, part.bytes);
        expect_equal(close((int)part.file_descriptor), 0);
        done += here;
    }
}

Test(pool_export, whoever_imports_the_handle_reads_the_block)
{
    static const size_t handle_sizes[] = {0, 2 * MIB, 6 * MIB, 32 * MIB};

    crmm_resource *vmm = make_exportable_vmm(FILES, 0);
    for (size_t i = 0; i < sizeof(handle_sizes) / sizeof(handle_sizes[0]); i++) {
        crmm_resource *pool = make_pool(vmm, .handle_size = handle_sizes[i]);
        char *small = take(pool, NULL, 3000);
        char *large = take(pool, NULL, 5 * MIB);
        char *other = take(pool, NULL, 300 * KIB);
        device_fill(small, 1, 3000);
        device_fill(large, 2, 5 * MIB);
        device_fill(other, 3, 300 * KIB);
        expect_readable(pool, small, 1, 3000);
        expect_readable(pool, large, 2, 5 * MIB);
        expect_readable(pool, other, 3, 300 * KIB);
        expect_readable(pool, other + 123457, 3, 100 * KIB);
        crmm_deallocate(pool, NULL, small, 3000, 256);
        crmm_deallocate(pool, NULL, large, 5 * MIB, 256);
        crmm_deallocate(pool, NULL, other, 300 * KIB, 256);
        crmm_resource_release(&pool);
        expect_equal(info_of(vmm).held, 0);
    }
    crmm_resource_release(&vmm);
}

/* What the importer writes is in the block: it is the memory itself. */
Test(pool_export, the_importer_writes_to_the_block)
{
    crmm_resource *vmm = make_exportable_vmm(FILES, 0);
    crmm_resource *pool = make_pool(vmm, .handle_size = 2 * MIB);
    char *before = take(pool, NULL, 70 * KIB);
    char *block = take(pool, NULL, 70 * KIB);

    device_fill(before, 1, 70 * KIB);
    device_fill(block, 2, 70 * KIB);
    crmm_pool_export handle = exported(pool, block);
    char *mapped = import_handle(&handle, FILES);
    device_fill(mapped + handle.offset, 9, 70 * KIB);
    cuda(cudaDeviceSynchronize());
    cr_assert(device_has(block, 9, 70 * KIB) && device_has(before, 1, 70 * KIB));
    unmap_import(mapped, handle.bytes);
    expect_equal(close((int)handle.file_descriptor), 0);
    crmm_deallocate(pool, NULL, before, 70 * KIB, 256);
    crmm_deallocate(pool, NULL, block, 70 * KIB, 256);
    crmm_resource_release(&pool);
    crmm_resource_release(&vmm);
}

/* A block that spans handles is exported piece by piece, without gaps. */
Test(pool_export, a_block_over_several_handles_is_so_many_exports)
{
    crmm_resource *vmm = make_exportable_vmm(FILES, 0);
    crmm_resource *pool = make_pool(vmm, .handle_size = 2 * MIB);
    char *before = take(pool, NULL, 3 * MIB);
    char *block = take(pool, NULL, 7 * MIB);
    size_t pieces = 0;

    for (size_t done = 0; done < 7 * MIB; pieces++) {
        crmm_pool_export part = exported(pool, block + done);
        expect_equal(part.bytes, 2 * MIB);
        done += part.bytes - part.offset;
        expect_equal(close((int)part.file_descriptor), 0);
    }
    cr_assert(pieces == 4 || pieces == 5, "%zu", pieces);
    device_fill(block, 5, 7 * MIB);
    expect_readable(pool, block, 5, 7 * MIB);
    crmm_deallocate(pool, NULL, before, 3 * MIB, 256);
    crmm_deallocate(pool, NULL, block, 7 * MIB, 256);
    crmm_resource_release(&pool);
    crmm_resource_release(&vmm);
}

/* Where the resource below was told to make smaller handles than the pool's pages. */
Test(pool_export, handles_are_as_small_as_upstream_makes_them)
{
    static const size_t expected[] = {4 * MIB, 4 * MIB, 2 * MIB};
    crmm_resource *vmm = make_exportable_vmm(FILES, 4 * MIB);
    crmm_resource *pool = make_pool(vmm, .handle_size = 10 * MIB);
    char *block = take(pool, NULL, 10 * MIB);
    char *base = NULL;

    expect_success(crmm_pool_memory_resource_chunk(pool, block, (void **)&base, NULL));
    cr_assert(base == block);
    for (size_t i = 0; i < 3; i++) {
        crmm_pool_export part = exported(pool, block + i * 4 * MIB + 1000);
        expect_equal(part.offset, 1000);
        expect_equal(part.bytes, expected[i]);
        expect_equal(close((int)part.file_descriptor), 0);
    }
    device_fill(block, 6, 10 * MIB);
    expect_readable(pool, block, 6, 10 * MIB);
    crmm_deallocate(pool, NULL, block, 10 * MIB, 256);
    crmm_resource_release(&pool);
    crmm_resource_release(&vmm);
}

/* A registration is of one handle at a time: such a block needs one. */
Test(pool_export, a_block_aligned_to_the_handle_size_lies_in_one_handle)
{
    static const size_t sizes[] = {1000, 3 * MIB, 8 * MIB};
    crmm_resource *vmm = make_exportable_vmm(FILES, 0);
    crmm_resource *pool = make_pool(vmm, .handle_size = 8 * MIB);
    void *odd = take(pool, NULL, 3 * MIB);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *block = NULL;
        expect_success(crmm_allocate(pool, NULL, sizes[i], 8 * MIB, &block));
        crmm_pool_export handle = exported(pool, block);
        expect_equal(handle.bytes, 8 * MIB);
        expect_equal(handle.offset, 0);
        expect_equal(close((int)handle.file_descriptor), 0);
        crmm_deallocate(pool, NULL, block, sizes[i], 8 * MIB);
    }
    crmm_deallocate(pool, NULL, odd, 3 * MIB, 256);
    crmm_resource_release(&pool);
    crmm_resource_release(&vmm);
}

/* Memory that has moved within the pool is exported from where it is now. */
Test(pool_export, memory_that_moved_is_exported_from_its_new_place)
{
    crmm_resource *vmm = make_exportable_vmm(FILES, 0);
    crmm_resource *pool = make_pool(vmm, .tight = 1, .handle_size = 2 * MIB);
    cudaStream_t stream = make_stream();
    void *ptrs[16];

    for (size_t i = 0; i < 16; i++) {
        ptrs[i] = take(pool, stream, 4 * MIB);
    }
    for (size_t i = 0; i < 16; i += 2) {
        crmm_deallocate(pool, stream, ptrs[i], 4 * MIB, 256);
    }
    char *moved = take(pool, stream, 16 * MIB);
    cr_assert(statistics_of(pool).moves > 0);
    cuda(cudaStreamSynchronize(stream));
    device_fill(moved, 7, 16 * MIB);
    expect_readable(pool, moved, 7, 16 * MIB);
    crmm_deallocate(pool, stream, moved, 16 * MIB, 256);
    for (size_t i = 1; i < 16; i += 2) {
        crmm_deallocate(pool, stream, ptrs[i], 4 * MIB, 256);
    }
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&pool);
    expect_equal(info_of(vmm).held, 0);
    crmm_resource_release(&vmm);
}

Test(pool_export, a_pool_that_validates_exports_as_well)
{
    crmm_resource *vmm = make_exportable_vmm(FILES, 0);
    crmm_resource *pool = make_pool(vmm, .validate = 1);
    char *block = take(pool, NULL, 3 * MIB);

    device_fill(block, 8, 3 * MIB);
    expect_readable(pool, block, 8, 3 * MIB);
    misuse_recorder_start();
    crmm_deallocate(pool, NULL, block, 3 * MIB, 256);
    crmm_resource_release(&pool);
    expect_equal(misuse_recorded()->count, 0);
    crmm_resource_release(&vmm);
}

/* ---- what cannot be ---- */

static void expect_refused(const crmm_resource *pool, const void *ptr, uint64_t type,
                           crmm_status status, const char *part)
{
    const crmm_pool_export before = {.struct_size = sizeof(before), .file_descriptor = 77};
    crmm_pool_export out = before;

    expect_failure(crmm_pool_memory_resource_export(pool, ptr, type, &out), status, part);
    expect_equal(memcmp(&out, &before, sizeof(out)), 0);
}

Test(pool_export, wrong_arguments_are_refused)
{
    crmm_resource *vmm = make_exportable_vmm(FILES, 0);
    crmm_resource *pool = make_pool(vmm, .handle_size = 2 * MIB);
    crmm_resource *other = make_pool(vmm, .handle_size = 2 * MIB);
    char *block = take(pool, NULL, 5 * MIB);
    char *given_back = take(pool, NULL, 5 * MIB);
    char *at_hand = take(pool, NULL, 1000);
    const crmm_status invalid = CRMM_ERROR_INVALID_ARGUMENT;
    crmm_pool_export out = {.struct_size = sizeof(out) - 1, .file_descriptor = 77};

    crmm_deallocate(pool, NULL, given_back, 5 * MIB, 256);
    crmm_deallocate(pool, NULL, at_hand, 1000, 256);
    misuse_recorder_start();
    expect_refused(NULL, block, FILES, invalid, "crmm_pool_memory_resource_export");
    expect_refused(vmm, block, FILES, invalid, "crmm_pool_memory_resource_export");
    expect_refused(pool, NULL, FILES, invalid, "is in no live block of this pool");
    expect_refused(pool, &out, FILES, invalid, "is in no live block of this pool");
    expect_refused(other, block, FILES, invalid, "is in no live block of this pool");
    expect_refused(pool, given_back, FILES, invalid, "is in no live block of this pool");
    expect_refused(pool, at_hand, FILES, invalid, "is in no live block of this pool");
    expect_refused(pool, block, 0, invalid, "handle_type 0 is not one kind of handle");
    expect_refused(pool, block, 2, invalid, "handle_type 2 is not one kind of handle");
    expect_refused(pool, block, FILES | CRMM_EXPORT_FABRIC, invalid,
                   "handle_type 9 is not one kind of handle");
    expect_failure(crmm_pool_memory_resource_export(pool, block, FILES, NULL), invalid,
                   "out is NULL");
    expect_failure(crmm_pool_memory_resource_export(pool, block, FILES, &out), invalid,
                   "struct_size");
    expect_equal(out.file_descriptor, 77);
    crmm_deallocate(pool, NULL, block, 5 * MIB, 256);
    crmm_resource_release(&pool);
    crmm_resource_release(&other);
    crmm_resource_release(&vmm);
}

/* It is said at once, and why, instead of failing where the handle is used. */
Test(pool_export, memory_without_such_handles_is_refused_by_name)
{
    crmm_resource *plain = make_vmm();
    crmm_resource *vmm = make_exportable_vmm(FILES, 0);
    crmm_resource *pools[] = {make_pool(crmm_cuda_memory_resource(), .tight = 0),
                              make_pool(plain, .tight = 0), make_pool(vmm, .tight = 0)};
    static const uint64_t types[] = {FILES, FILES, CRMM_EXPORT_FABRIC};
    static const char *const why[] = {
        "the pool's memory is cuda_memory_resource's, which has no handles",
        "vmm_memory_resource was made with export_handle_type 0, and handles of type 1 were asked",
        "vmm_memory_resource was made with export_handle_type 1, and handles of type 8 were asked"};

    for (size_t i = 0; i < 3; i++) {
        void *block = take(pools[i], NULL, 3 * MIB);
        expect_refused(pools[i], block, types[i], CRMM_ERROR_UNSUPPORTED, why[i]);
        crmm_deallocate(pools[i], NULL, block, 3 * MIB, 256);
    }
    crmm_resource *above = make_pool(pools[2], .tight = 0);
    crmm_resource *host = make_pool(crmm_malloc_memory_resource(), .tight = 0);
    void *block = take(above, NULL, 3 * MIB);
    expect_refused(above, block, FILES, CRMM_ERROR_UNSUPPORTED,
                   "the pool's memory is pool_memory_resource's");
    crmm_deallocate(above, NULL, block, 3 * MIB, 256);
    expect_success(crmm_allocate_sync(host, 1000, 256, &block));
    expect_refused(host, block, FILES, CRMM_ERROR_UNSUPPORTED,
                   "the pool's memory is malloc_memory_resource's");
    crmm_deallocate_sync(host, block, 1000, 256);
    crmm_resource_release(&above);
    crmm_resource_release(&host);
    for (size_t i = 0; i < 3; i++) {
        crmm_resource_release(&pools[i]);
    }
    crmm_resource_release(&plain);
    crmm_resource_release(&vmm);
}
