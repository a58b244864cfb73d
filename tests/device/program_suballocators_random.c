/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixed_size, binning and arena asked for anything, right and wrong, over an upstream that refuses
 * now and then: no two blocks overlap, no byte changes, whatever is wrong is found and harms
 * nobody, and in the end everything has gone back as it came. (User report 57: sizes that nobody
 * checked corrupted a resource of blocks of one size.)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crmm/core/alignment.h>
#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/device/arena_memory_resource.h>
#include <crmm/device/binning_memory_resource.h>
#include <crmm/device/fixed_size_memory_resource.h>

#include "random_numbers.h"
#include "recording_resource.h"

enum { KIB = 1024, MOST = 20 * KIB, BLOCK = 4 * KIB, SLOTS = 48, STEPS = 200000, SEEDS = 3 };

static const char *subject = "nothing";

static void check(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_suballocators_random: %s: %s (%s)\n", subject, what,
                      crmm_last_error()->message);
        exit(1);
    }
}

static void ignore(const crmm_misuse *misuse, void *user_data)
{
    (void)misuse;
    (void)user_data;
}

/* ---- what is live ---- */

typedef struct block {
    unsigned char *ptr;
    size_t bytes, alignment;
    unsigned char mark;
} block;

typedef struct run {
    recording_resource upstream;
    crmm_resource *mr;
    uint64_t random;
    block blocks[SLOTS];
    size_t count;
} run;

static bool overlaps(const run *of, const unsigned char *ptr, size_t bytes)
{
    for (size_t i = 0; i < of->count; i++) {
        const block *other = &of->blocks[i];
        if (ptr < other->ptr + other->bytes && other->ptr < ptr + bytes) {
            return true;
        }
    }
    return false;
}

static bool is_whole(const block *one)
{
    size_t i = 0;

    while (i < one->bytes && one->ptr[i] == one->mark) {
        i++;
    }
    return i == one->bytes;
}

/* ---- steps ---- */

static size_t any_size(uint64_t *random)
{
    static const size_t edges[] = {
        0,         1,    255,  256,         257,      BLOCK - 1,      BLOCK,
        BLOCK + 1, 1024, 1025, PTRDIFF_MAX, SIZE_MAX, SIZE_MAX - 255, (size_t)1 << 62};

    switch (random_below(random, 4)) {
    case 0:
        return edges[random_below(random, sizeof(edges) / sizeof(edges[0]))];
    case 1:
        return SIZE_MAX - random_below(random, 1 << 20);
    default:
        return 1 + random_below(random, MOST);
    }
}

static size_t any_alignment(uint64_t *random)
{
    uint64_t choice = random_below(random, 40);

    return choice < 2 ? choice * 3 : (size_t)1 << choice % 17;
}

static void ask(run *of)
{
    size_t bytes = any_size(&of->random);
    size_t alignment = any_alignment(&of->random);
    size_t refused = of->upstream.refused;
    void *ptr = of;

    crmm_status status = crmm_allocate_sync(of->mr, bytes, alignment, &ptr);
    if (!crmm_is_pow2(alignment)) {
        check(status == CRMM_ERROR_INVALID_ARGUMENT && ptr == of, "a bad alignment is not refused");
        return;
    }
    if (bytes == 0) {
        check(status == CRMM_SUCCESS && ptr == NULL, "0 bytes are not NULL");
        return;
    }
    if (status != CRMM_SUCCESS) {
        check(ptr == of && crmm_last_error()->status == status, "a failure is not told right");
        check(of->upstream.refused > refused || status == CRMM_ERROR_OUT_OF_MEMORY ||
                  (status == CRMM_ERROR_UNSUPPORTED && alignment > CRMM_DEVICE_ALIGNMENT),
              "another failure");
        return;
    }
    check(bytes <= MOST, "more is given than there is");
    check(ptr != NULL && crmm_is_pointer_aligned(ptr, alignment), "the pointer is not aligned");
    check(!overlaps(of, ptr, bytes), "two live blocks overlap");
    block *one = &of->blocks[of->count++];
    *one = (block){ptr, bytes, alignment, (unsigned char)random_next(&of->random)};
    memset(ptr, one->mark, bytes);
}

static void expect_finding(run *of, void *ptr, size_t bytes, size_t alignment, const char *what)
{
    uint64_t found = crmm_misuse_count();

    crmm_deallocate_sync(of->mr, ptr, bytes, alignment);
    check(crmm_misuse_count() == found + 1, what);
}

static void give_wrongly(run *of, const block *one)
{
    unsigned char local = 0;

    switch (random_below(&of->random, 5)) {
    case 0:
        expect_finding(of, &local, one->bytes, one->alignment, "a foreign pointer is not found");
        break;
    case 1:
        expect_finding(of, one->ptr + 1 + random_below(&of->random, 255), one->bytes,
                       one->alignment, "a pointer into a block is not found");
        break;
    case 2:
        expect_finding(of, one->ptr, one->bytes + (size_t)64 * KIB, one->alignment,
                       "a size that is too large is not found");
        break;
    case 3:
        expect_finding(of, one->ptr, SIZE_MAX - random_below(&of->random, 512), one->alignment,
                       "a size that cannot be is not found");
        break;
    default:
        expect_finding(of, one->ptr, 0, one->alignment, "0 bytes are not found");
        break;
    }
    check(is_whole(one), "what was wrong did harm");
}

static void give(run *of)
{
    block *at = &of->blocks[random_below(&of->random, of->count)];
    const block one = *at;

    check(is_whole(&one), "a block's bytes have changed");
    if (random_below(&of->random, 8) == 0) {
        give_wrongly(of, &one);
        return;
    }
    uint64_t found = crmm_misuse_count();
    crmm_deallocate_sync(of->mr, one.ptr, one.bytes, one.alignment);
    check(crmm_misuse_count() == found, "a right free is called wrong");
    *at = of->blocks[--of->count];
    if (random_below(&of->random, 8) == 0) {
        expect_finding(of, one.ptr, one.bytes, one.alignment, "a second free is not found");
    }
}

static void step(run *of)
{
    if (random_below(&of->random, 500) == 0) {
        check(crmm_resource_trim(of->mr, random_below(&of->random, MOST), NULL) == CRMM_SUCCESS,
              "a trim fails");
    } else if (of->count == 0 || (of->count < SLOTS && random_below(&of->random, 2) == 0)) {
        ask(of);
    } else {
        give(of);
    }
}

/* ---- the runs ---- */

static crmm_status create_fixed_size(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_fixed_size_memory_resource_create(upstream,
                                                  CRMM_OPTIONS(crmm_fixed_size_memory_resource,
                                                               .block_size = BLOCK,
                                                               .blocks_to_preallocate = 8),
                                                  out);
}

static crmm_status create_binning(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_binning_memory_resource_create(
        upstream,
        CRMM_OPTIONS(crmm_binning_memory_resource, .min_size_exponent = 8, .max_size_exponent = 13,
                     .blocks_to_preallocate = 4),
        out);
}

static crmm_status create_arena(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_arena_memory_resource_create(
        upstream, CRMM_OPTIONS(crmm_arena_memory_resource, .arena_size = KIB * KIB), out);
}

static void exercise(const char *name, crmm_status (*create)(crmm_resource *, crmm_resource **),
                     uint64_t seed)
{
    static run of;
    crmm_memory_info info = {.struct_size = sizeof(info)};

    subject = name;
    of = (run){.random = seed};
    recording_resource_init(&of.upstream, CRMM_HOST_ACCESSIBLE);
    recording_expect(true, NULL);
    check(create(&of.upstream.base, &of.mr) == CRMM_SUCCESS, "it cannot be made");
    of.upstream.seed = seed;
    of.upstream.fail_per_thousand = 100;
    for (int i = 0; i < STEPS; i++) {
        step(&of);
    }
    of.upstream.fail_per_thousand = 0;
    while (of.count > 0) {
        const block *one = &of.blocks[--of.count];
        check(is_whole(one), "a block's bytes have changed");
        crmm_deallocate_sync(of.mr, one->ptr, one->bytes, one->alignment);
    }
    uint64_t found = crmm_misuse_count();
    check(crmm_resource_info(of.mr, &info) == CRMM_SUCCESS && info.live == 0 &&
              info.allocations == 0,
          "what came back is still counted");
    crmm_resource_release(&of.mr);
    check(crmm_misuse_count() == found, "misuse is reported at the end");
    check(of.upstream.live_blocks == 0, "upstream has not got everything back");
    check(of.upstream.wrong == 0, of.upstream.first_wrong);
    recording_resource_finish(&of.upstream);
}

int main(void)
{
    crmm_set_misuse_handler(ignore, NULL);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        exercise("fixed_size", create_fixed_size, seed);
        exercise("binning", create_binning, seed);
        exercise("arena", create_arena, seed);
    }
    return 0;
}
