/* SPDX-License-Identifier: Apache-2.0 */

/* A pool's heap by itself: where it finds room, and how free neighbours become one. */

#include <criterion/criterion.h>

#include "../../device/src/pool/extents.h"
#include "../../device/src/pool/extents_table.h"
#include "expect.h"

enum { OWN = CRMM_PRIV_POOL_FIRST_STREAM, OTHER, BASE = 4096, CHUNK = 4096 };

/* A heap with a chunk of clean memory. */
static crmm_priv_extents begin(void)
{
    crmm_priv_extents heap = {0};

    cr_assert(crmm_priv_extents_init(&heap));
    for (uint16_t owner = OWN; owner <= OTHER; owner++) {
        cr_assert(crmm_priv_extents_reserve_owner(&heap, owner));
    }
    cr_assert(crmm_priv_extents_reserve(&heap));
    (void)crmm_priv_extents_add(&heap, BASE, CHUNK, CRMM_PRIV_POOL_FREE, false);
    return heap;
}

static void expect_sound(const crmm_priv_extents *heap)
{
    char why[200] = "";

    cr_assert(crmm_priv_extents_check(heap, why, sizeof(why)), "%s", why);
}

static void end(crmm_priv_extents *heap)
{
    expect_sound(heap);
    crmm_priv_extents_finish(heap);
}

/* Blocks of these sizes one after the other, by their addresses, and all that is behind them. */
static void fill(crmm_priv_extents *heap, const uint32_t *sizes, size_t count, uint64_t *at)
{
    const crmm_priv_extent_source clean = {.owner = CRMM_PRIV_POOL_CLEAN, .epoch = UINT64_MAX};
    uint32_t rest = CHUNK;

    for (size_t i = 0; i <= count; i++) {
        uint32_t size = i < count ? sizes[i] : rest;
        cr_assert(crmm_priv_extents_reserve(heap));
        uint32_t index = crmm_priv_extents_find_tightest(heap, size, &clean, 1);
        cr_assert(index != 0);
        index = crmm_priv_extents_take(heap, index, size, 1);
        if (i < count) {
            at[i] = crmm_priv_extent_at(heap, index)->at;
        }
        rest -= size;
    }
}

static void give_back(crmm_priv_extents *heap, uint64_t at, uint16_t owner, uint64_t epoch)
{
    uint32_t index = crmm_priv_extents_lookup(heap, at);

    cr_assert(index != 0);
    crmm_priv_extents_release(heap, index, owner, epoch);
    expect_sound(heap);
}

/* The free extent that begins at an address. */
static const crmm_priv_extent *free_at(const crmm_priv_extents *heap, uint64_t at)
{
    for (uint32_t i = CRMM_PRIV_EXTENT_STEP; i < crmm_priv_extents_end(heap);
         i += CRMM_PRIV_EXTENT_STEP) {
        if (crmm_priv_extent_at(heap, i)->state == CRMM_PRIV_POOL_FREE &&
            crmm_priv_extent_at(heap, i)->at == at) {
            return crmm_priv_extent_at(heap, i);
        }
    }
    cr_assert_fail("nothing free begins at %llu", (unsigned long long)at);
    return NULL;
}

/* Where a row for a size begins, of the stream's own memory and of nobody's. 0: nowhere. */
static uint64_t row_for(const crmm_priv_extents *heap, uint32_t size)
{
    const crmm_priv_extent_source near[] = {{.owner = OWN, .epoch = UINT64_MAX},
                                            {.owner = CRMM_PRIV_POOL_CLEAN, .epoch = UINT64_MAX}};
    uint32_t first = crmm_priv_extents_find_row(heap, size, near, 2, false);

    return first == 0 ? 0 : crmm_priv_extent_at(heap, first)->at;
}

/* ---- bins ---- */

Test(pool_extents, a_bin_has_the_sizes_between_its_least_and_that_of_the_next)
{
    static const uint32_t shifts[] = {0, 1, 4, 5, 6, 9, 20, 30, 31};

    for (uint32_t size = 0; size < 5000; size++) {
        uint32_t bin = bin_of(size);
        cr_assert(smallest_in(row_of(bin), column_of(bin)) <= size, "%u", size);
        cr_assert(bin_of(size + 1) == bin || bin_of(size + 1) == bin + 1, "%u", size);
        cr_assert(smallest_in(row_of(bin + 1), column_of(bin + 1)) > size, "%u", size);
    }
    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
        uint32_t size = (uint32_t)1 << shifts[i];
        expect_equal(smallest_in(row_of(bin_of(size)), column_of(bin_of(size))), size);
        cr_assert(size == 1 || bin_of(size - 1) == bin_of(size) - 1, "%u", size);
    }
    expect_equal(bin_of(UINT32_MAX), CRMM_PRIV_POOL_ROWS * CRMM_PRIV_POOL_COLUMNS - 1);
}

/* ---- places ---- */

Test(pool_extents, a_block_goes_where_it_fills_a_gap)
{
    static const uint32_t sizes[] = {100, 10, 101, 10, 100, 10};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    crmm_priv_extents heap = begin();
    uint64_t at[COUNT];

    fill(&heap, sizes, COUNT, at);
    give_back(&heap, at[4], OWN, 1);
    give_back(&heap, at[2], OWN, 2);
    expect_equal(row_for(&heap, 100), at[4]);
    expect_equal(row_for(&heap, 101), at[2]);
    expect_equal(row_for(&heap, 102), 0);
    give_back(&heap, at[0], CRMM_PRIV_POOL_CLEAN, 0);
    expect_equal(row_for(&heap, 100), at[0]); /* the lower one of two */
    end(&heap);
}

/* Not in the middle of what is free together. */
Test(pool_extents, a_block_goes_where_the_row_of_neighbours_begins)
{
    static const uint32_t sizes[] = {100, 10, 60, 100, 10};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    crmm_priv_extents heap = begin();
    uint64_t at[COUNT];

    fill(&heap, sizes, COUNT, at);
    give_back(&heap, at[2], CRMM_PRIV_POOL_CLEAN, 0);
    give_back(&heap, at[3], OWN, 1);
    expect_equal(row_for(&heap, 100), at[2]);
    expect_equal(row_for(&heap, 160), at[2]); /* where none is enough by itself too */
    expect_equal(row_for(&heap, 161), 0);
    give_back(&heap, at[0], OWN, 1);
    expect_equal(row_for(&heap, 100), at[0]);
    end(&heap);
}

Test(pool_extents, a_row_ends_where_another_stream_s_memory_begins)
{
    static const uint32_t sizes[] = {50, 50, 50, 10};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    crmm_priv_extents heap = begin();
    uint64_t at[COUNT];

    fill(&heap, sizes, COUNT, at);
    give_back(&heap, at[0], OWN, 1);
    give_back(&heap, at[1], OTHER, 1);
    give_back(&heap, at[2], CRMM_PRIV_POOL_CLEAN, 0);
    expect_equal(row_for(&heap, 51), 0);
    const crmm_priv_extent_source all[] = {{.owner = OWN, .epoch = UINT64_MAX},
                                           {.owner = CRMM_PRIV_POOL_CLEAN, .epoch = UINT64_MAX},
                                           {.owner = OTHER, .epoch = 1}};
    uint32_t first = crmm_priv_extents_find_row(&heap, 150, all, 3, false);
    expect_equal(crmm_priv_extent_at(&heap, first)->at, at[0]);
    /* Up to an epoch. */
    const crmm_priv_extent_source early[] = {{.owner = OWN, .epoch = UINT64_MAX},
                                             {.owner = CRMM_PRIV_POOL_CLEAN, .epoch = UINT64_MAX},
                                             {.owner = OTHER, .epoch = 0}};
    expect_equal(crmm_priv_extents_find_row(&heap, 150, early, 3, false), 0);
    cr_assert(crmm_priv_extents_reserve(&heap));
    uint32_t taken = crmm_priv_extents_take_run(&heap, first, 120, 1);
    expect_equal(crmm_priv_extent_at(&heap, taken)->size, 120);
    expect_equal(free_at(&heap, at[0] + 120)->owner, CRMM_PRIV_POOL_CLEAN);
    end(&heap);
}

/* ---- blocks by their addresses ---- */

/* The table looks at low bits first, and these are those of several. */
Test(pool_extents, blocks_whose_addresses_differ_in_high_bits_only_are_told_apart)
{
    enum { CHUNKS = 5, SIZE = 64 };
    const uint64_t apart = (uint64_t)1 << 32;
    crmm_priv_extents heap = begin();
    uint32_t of[CHUNKS] = {0};

    for (uint64_t i = 0; i < CHUNKS; i++) {
        cr_assert(crmm_priv_extents_reserve(&heap));
        of[i] =
            crmm_priv_extents_add(&heap, BASE + (i + 1) * apart, SIZE, CRMM_PRIV_POOL_FREE, false);
        cr_assert(crmm_priv_extents_reserve(&heap));
        of[i] = crmm_priv_extents_take(&heap, of[i], SIZE, 1);
    }
    for (uint64_t i = 0; i < CHUNKS; i += 2) { /* so that there are gaps to close */
        give_back(&heap, BASE + (i + 1) * apart, OWN, 1);
    }
    for (uint64_t i = 0; i < CHUNKS; i++) {
        expect_equal(crmm_priv_extents_lookup(&heap, BASE + (i + 1) * apart), i % 2 ? of[i] : 0);
    }
    end(&heap);
}

Test(pool_extents, blocks_are_found_from_the_last_slot_of_the_table_on)
{
    enum { COUNT = 5 };
    crmm_priv_extents heap = begin();
    uint64_t at[COUNT] = {0};
    uint64_t next = BASE + 2 * CHUNK;

    for (size_t i = 0; i < COUNT; i++) {
        while (slot_of(&heap, (uint32_t)next) != heap.table_size - 1) {
            next += 2;
        }
        at[i] = next;
        next += 2;
        cr_assert(crmm_priv_extents_reserve(&heap));
        uint32_t index = crmm_priv_extents_add(&heap, at[i], 1, CRMM_PRIV_POOL_FREE, false);
        (void)crmm_priv_extents_take(&heap, index, 1, 1);
    }
    for (size_t gone = 0; gone < COUNT; gone++) {
        give_back(&heap, at[gone], OWN, 1);
        for (size_t i = 0; i < COUNT; i++) {
            cr_assert((crmm_priv_extents_lookup(&heap, at[i]) != 0) == (i > gone), "%zu, %zu", i,
                      gone);
        }
    }
    end(&heap);
}

/* They are 16 granules each, of which many begin their search at the same slot, and of two chunks
 * that have the same low bits. */
Test(pool_extents, blocks_are_found_whatever_came_and_went_beside_them)
{
    enum { COUNT = 1500, STEPS = 20000, SIZE = 16 };
    static uint64_t at[COUNT];
    const crmm_priv_extent_source any[] = {{.owner = OWN, .epoch = UINT64_MAX},
                                           {.owner = CRMM_PRIV_POOL_CLEAN, .epoch = UINT64_MAX}};
    crmm_priv_extents heap = begin();
    uint32_t random = 1;

    for (uint64_t i = 1; i <= 2; i++) {
        cr_assert(crmm_priv_extents_reserve(&heap));
        (void)crmm_priv_extents_add(&heap, (i << 32) + BASE, COUNT / 2 * SIZE, CRMM_PRIV_POOL_FREE,
                                    false);
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        random = random * 1664525u + 1013904223u; /* Numerical Recipes in C, 7.1 */
        uint64_t *block = &at[(random >> 8) % COUNT];
        if (*block != 0) {
            uint32_t index = crmm_priv_extents_lookup(&heap, *block);
            cr_assert(index != 0 && crmm_priv_extent_at(&heap, index)->at == *block);
            crmm_priv_extents_release(&heap, index, OWN, i);
            cr_assert(crmm_priv_extents_lookup(&heap, *block) == 0);
            *block = 0;
            continue;
        }
        cr_assert(crmm_priv_extents_reserve(&heap));
        uint32_t index = crmm_priv_extents_find(&heap, SIZE, 1, CRMM_PRIV_POOL_ANY, any, 2);
        cr_assert(index != 0);
        index = crmm_priv_extents_take(&heap, index, SIZE, 1);
        *block = crmm_priv_extent_at(&heap, index)->at;
    }
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert(at[i] == 0 || crmm_priv_extents_lookup(&heap, at[i]) != 0, "%zu", i);
    }
    end(&heap);
}

/* ---- neighbours ---- */

Test(pool_extents, free_neighbours_of_one_owner_are_one_and_as_new_as_the_newest)
{
    static const uint32_t sizes[] = {50, 60, 70, 10};
    static const size_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                       {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    static const uint16_t owners[] = {OWN, CRMM_PRIV_POOL_CLEAN};

    for (size_t k = 0; k < sizeof(orders) / sizeof(orders[0]) * 2; k++) {
        uint16_t owner = owners[k % 2];
        crmm_priv_extents heap = begin();
        uint64_t at[COUNT];
        fill(&heap, sizes, COUNT, at);
        for (uint64_t i = 0; i < 3; i++) {
            give_back(&heap, at[orders[k / 2][i]], owner, owner == OWN ? i + 1 : 0);
        }
        expect_equal(free_at(&heap, at[0])->size, 180);
        expect_equal(free_at(&heap, at[0])->epoch, owner == OWN ? 3 : 0);
        expect_equal(crmm_priv_extents_set(&heap, owner)->count, 1);
        expect_equal(crmm_priv_extents_set(&heap, owner)->granules, 180);
        end(&heap);
    }
}

/* What a cache lets go of may be older than what lies beside it. */
Test(pool_extents, an_older_block_makes_no_neighbour_older)
{
    static const uint32_t sizes[] = {50, 60, 70, 10};
    static const uint64_t epochs[][2] = {{9, 4}, {4, 9}};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };

    for (size_t i = 0; i < 2; i++) {
        crmm_priv_extents heap = begin();
        uint64_t at[COUNT];
        fill(&heap, sizes, COUNT, at);
        give_back(&heap, at[0], OWN, epochs[i][0]);
        give_back(&heap, at[2], OWN, epochs[i][1]);
        give_back(&heap, at[1], OWN, 2);
        expect_equal(free_at(&heap, at[0])->size, 180);
        expect_equal(free_at(&heap, at[0])->epoch, 9);
        expect_equal(crmm_priv_extents_promote(&heap, OWN, 8, UINT32_MAX), 0);
        expect_equal(crmm_priv_extents_promote(&heap, OWN, 9, UINT32_MAX), 1);
        expect_equal(free_at(&heap, at[0])->owner, CRMM_PRIV_POOL_CLEAN);
        end(&heap);
    }
}

Test(pool_extents, the_oldest_is_complete_first_whatever_was_joined_to_it)
{
    static const uint32_t sizes[] = {50, 60, 10, 70, 10};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    crmm_priv_extents heap = begin();
    uint64_t at[COUNT];

    fill(&heap, sizes, COUNT, at);
    give_back(&heap, at[0], OWN, 1);
    give_back(&heap, at[3], OWN, 2);
    give_back(&heap, at[1], OWN, 3); /* with the first one, which is the newest now */
    expect_equal(crmm_priv_extents_promote(&heap, OWN, 2, UINT32_MAX), 1);
    expect_equal(free_at(&heap, at[3])->owner, CRMM_PRIV_POOL_CLEAN);
    expect_equal(free_at(&heap, at[0])->owner, OWN);
    end(&heap);
}

Test(pool_extents, neighbours_of_different_owners_stay_apart_but_for_a_lone_stream)
{
    static const uint32_t sizes[] = {50, 60, 70, 10};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };

    for (uint16_t solo = 0; solo <= OWN; solo += OWN) {
        crmm_priv_extents heap = begin();
        uint64_t at[COUNT];
        fill(&heap, sizes, COUNT, at);
        heap.solo = solo;
        give_back(&heap, at[0], CRMM_PRIV_POOL_CLEAN, 0);
        give_back(&heap, at[2], CRMM_PRIV_POOL_CLEAN, 0);
        give_back(&heap, at[1], OWN, 5);
        expect_equal(free_at(&heap, at[0])->size, solo != 0 ? 180 : 50);
        expect_equal(free_at(&heap, at[0])->owner, solo != 0 ? OWN : CRMM_PRIV_POOL_CLEAN);
        expect_equal(free_at(&heap, at[0])->epoch, solo != 0 ? 5 : 0);
        end(&heap);
    }
}
