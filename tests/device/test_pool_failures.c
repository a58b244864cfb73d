/* SPDX-License-Identifier: Apache-2.0 */
/* User report 65: what a pool says of a request that it cannot serve: how much was asked for, why
 * it failed, and what there was. */
#include <crmm/device/pool_memory_resource.h>

#include <stdio.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>

#include "pool_pieces.h"
#include "pool_support.h"
#include "recording_resource.h"

enum { ORDERED = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED };

/* ---- how much was asked for ---- */

/* One request fails, and record and text say so many bytes, as they were asked for. */
static void expect_refused(crmm_resource *pool, cudaStream_t stream, size_t bytes, size_t alignment)
{
    void *refused = &refused;
    char text[32];

    (void)snprintf(text, sizeof(text), " %zu bytes", bytes);
    for (int sync = 0; sync <= 1; sync++) {
        crmm_status status = sync != 0 ? crmm_allocate_sync(pool, bytes, alignment, &refused)
                                       : crmm_allocate(pool, stream, bytes, alignment, &refused);
        cr_assert(status != CRMM_SUCCESS && crmm_last_error()->status == status);
        expect_message(text);
        expect_equal(crmm_last_error()->requested_bytes, bytes);
    }
    cr_assert(refused == &refused);
}

/* Not what the pool has rounded them to, nor with the guards around them. */
Test(pool_failures, a_failure_says_how_much_was_asked_for)
{
    static const size_t sizes[] = {1, 257, 1000, 5000, 70001, 1000001, 5 * MIB + 1};
    static const size_t alignments[] = {1, 4096};
    cudaStream_t a = make_stream();
    cudaStream_t b = make_stream();
    recording_resource recording;

    recording_resource_init(&recording, ORDERED);
    recording_expect(true, NULL);
    recording.fail_per_thousand = 1000;
    for (size_t validate = 0; validate <= 1; validate++) {
        crmm_resource *full = make_pool(crmm_cuda_memory_resource(), .maximum_pool_size = 16 * MIB,
                                        .validate = validate);
        crmm_resource *poor = make_pool(&recording.base, .validate = validate);
        size_t filler = 16 * MIB - validate * 512;
        void *rest = take(full, a, filler);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            for (size_t k = 0; k < sizeof(alignments) / sizeof(alignments[0]); k++) {
                expect_refused(full, b, sizes[i], alignments[k]);
                expect_refused(poor, b, sizes[i], alignments[k]);
            }
        }
        expect_refused(full, b, 16 * MIB + 1, 256);
        crmm_deallocate(full, a, rest, filler, 256);
        crmm_resource_release(&full);
        crmm_resource_release(&poor);
    }
    recording_resource_finish(&recording);
    cuda(cudaStreamDestroy(a));
    cuda(cudaStreamDestroy(b));
}

/* ---- why, and what there was ---- */

typedef struct fixture {
    crmm_resource *vmm;
    cudaStream_t owner, other;
    gate held; /* the owner's work on what it gave back */
} fixture;

static fixture begin(void)
{
    return (fixture){.vmm = make_vmm(), .owner = make_stream(), .other = make_stream()};
}

static void end(fixture *all)
{
    cuda(cudaStreamDestroy(all->owner));
    cuda(cudaStreamDestroy(all->other));
    crmm_resource_release(&all->vmm);
}

/* The latest failure's record, to the byte, of a request on a pool in pieces. */
static void expect_record(size_t requested, size_t pending)
{
    const crmm_error *error = crmm_last_error();

    expect_equal(error->requested_bytes, requested);
    expect_equal(error->live_bytes, PIECES_LIVE);
    expect_equal(error->cached_bytes, PIECES_FREE);
    expect_equal(error->pending_bytes, pending);
    expect_equal(error->largest_free_bytes, PIECES_LARGEST);
}

/* More than the maximum fails at once, so what is pending still is. */
Test(pool_failures, a_request_above_the_maximum_fails_without_waiting_and_tells_what_is_pending,
     .timeout = 20)
{
    fixture all = begin();
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), all.vmm};
    void *refused = &refused;

    for (size_t i = 0; i < 2; i++) {
        pieces parts = pieces_make(upstreams[i], PIECES_ALL, all.owner);
        gate_close(&all.held, all.owner);
        pieces_give_back(&parts);
        expect_equal(info_of(parts.pool).pending, PIECES_PENDING);
        expect_status(crmm_allocate(parts.pool, all.other, PIECES_ALL + 1, 256, &refused),
                      CRMM_ERROR_OUT_OF_MEMORY);
        cr_assert(refused == &refused && !gate_is_open(&all.held));
        cr_assert(cudaStreamQuery(all.owner) == cudaErrorNotReady, "it waited");
        expect_text(crmm_last_error()->message,
                    "pool_memory_resource: 16777217 bytes with alignment 256 are more than it may "
                    "hold, 16777216");
        expect_record(PIECES_ALL + 1, PIECES_PENDING);
        expect_equal(crmm_last_error()->native_code, 0);
        gate_open(&all.held);
        pieces_end(&parts);
    }
    end(&all);
}

/* A request on another stream than the one whose memory is pending: it waits until that is free. */
static void refuse_after_the_wait(pieces *parts, fixture *all, size_t bytes)
{
    void *refused = &refused;

    gate_close(&all->held, all->owner);
    pieces_give_back(parts);
    expect_equal(info_of(parts->pool).pending, PIECES_PENDING);
    pthread_t opener = gate_open_later(&all->held);
    crmm_status status = crmm_allocate(parts->pool, all->other, bytes, 256, &refused);
    cr_assert(gate_is_open(&all->held) && pthread_join(opener, NULL) == 0);
    cr_assert(status != CRMM_SUCCESS && refused == &refused);
    expect_equal(crmm_last_error()->status, status);
}

/* One reason: what is alive and what is asked for are more than the maximum, whatever is free: so
 * nobody is waited for. */
Test(pool_failures, a_request_that_exceeds_the_maximum_with_what_is_alive_says_so, .timeout = 20)
{
    fixture all = begin();
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), all.vmm};

    for (size_t i = 0; i < 2; i++) {
        pieces parts = pieces_make(upstreams[i], PIECES_ALL, all.owner);
        void *refused = &refused;
        gate_close(&all.held, all.owner);
        pieces_give_back(&parts);
        expect_status(crmm_allocate(parts.pool, all.other, PIECES_FREE + 256, 256, &refused),
                      CRMM_ERROR_OUT_OF_MEMORY);
        cr_assert(refused == &refused && !gate_is_open(&all.held));
        expect_text(crmm_last_error()->message,
                    "pool_memory_resource: no 9437440 bytes: 7340032 live, 9437184 free, of which "
                    "6291456 pending, longest run 4194304, of at most 16777216");
        expect_record(PIECES_FREE + 256, PIECES_PENDING);
        expect_equal(crmm_last_error()->native_code, 0);
        gate_open(&all.held);
        pieces_end(&parts);
    }
    end(&all);
}

/* Another one: as much is free, and lies apart. */
Test(pool_failures, a_request_that_only_lacks_one_piece_says_so)
{
    fixture all = begin();
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), all.vmm};

    for (size_t i = 0; i < 2; i++) {
        pieces parts = pieces_make(upstreams[i], PIECES_ALL, all.owner);
        refuse_after_the_wait(&parts, &all, PIECES_FREE);
        expect_equal(crmm_last_error()->status, CRMM_ERROR_OUT_OF_MEMORY);
        expect_text(crmm_last_error()->message,
                    "pool_memory_resource: no 9437184 bytes: 7340032 live, 9437184 free, of which "
                    "0 pending, longest run 4194304, of at most 16777216; enough is left, but no "
                    "piece fits");
        expect_record(PIECES_FREE, 0);
        expect_equal(crmm_last_error()->native_code, 0);
        /* The longest run is one. */
        void *ptr = take(parts.pool, all.other, PIECES_LARGEST);
        crmm_deallocate(parts.pool, all.other, ptr, PIECES_LARGEST, 256);
        pieces_end(&parts);
    }
    end(&all);
}

/* What may still come counts as well: a chunk of what the maximum leaves is too small, and what is
 * free lies in another one. */
Test(pool_failures, a_request_that_room_and_free_memory_would_serve_together_says_so)
{
    void *refused = NULL;
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .initial_pool_size = 8 * MIB,
                                    .maximum_pool_size = 14 * MIB);
    void *live = take(pool, NULL, 2 * MIB);

    expect_failure(crmm_allocate(pool, NULL, 12 * MIB, 256, &refused), CRMM_ERROR_OUT_OF_MEMORY,
                   "2097152 live, 6291456 free, of which 0 pending, longest run 6291456, of at "
                   "most 14680064; enough is left, but no piece fits");
    expect_failure(crmm_allocate(pool, NULL, 12 * MIB + 256, 256, &refused),
                   CRMM_ERROR_OUT_OF_MEMORY, "of at most 14680064");
    cr_assert(strstr(crmm_last_error()->message, "enough") == NULL);
    crmm_deallocate(pool, NULL, live, 2 * MIB, 256);
    crmm_resource_release(&pool);
}

/* And the third: upstream, whose own words come with it. */
Test(pool_failures, a_request_that_upstream_refuses_says_so)
{
    fixture all = begin();
    recording_resource recording;

    recording_resource_init(&recording, ORDERED);
    recording_expect(true, NULL);
    pieces parts = pieces_make(&recording.base, 0, all.owner);
    recording.fail_per_thousand = 1000;
    refuse_after_the_wait(&parts, &all, PIECES_FREE);
    expect_message("pool_memory_resource: no 9437184 bytes: 7340032 live, 9437184 free, of which "
                   "0 pending, longest run 4194304; upstream refused: ");
    cr_assert(strstr(crmm_last_error()->message, "of at most") == NULL);
    cr_assert(strstr(crmm_last_error()->message, "enough") == NULL);
    expect_record(PIECES_FREE, 0);
    recording.fail_per_thousand = 0;
    void *ptr = take(parts.pool, all.owner, PIECES_FREE); /* as if nothing had been */
    crmm_deallocate(parts.pool, all.owner, ptr, PIECES_FREE, 256);
    pieces_end(&parts);
    cr_assert(recording.wrong == 0 && recording.live_bytes == 0, "%s", recording.first_wrong);
    recording_resource_finish(&recording);
    end(&all);
}

/* A new pool whose first request upstream refuses holds nothing, and goes on. */
Test(pool_failures, a_first_request_that_upstream_refuses_leaves_nothing)
{
    recording_resource recording;
    void *refused = &refused;

    need_devices(1);
    recording_resource_init(&recording, ORDERED);
    recording_expect(true, NULL);
    recording.fail_per_thousand = 1000;
    crmm_resource *pool = make_pool(&recording.base, .tight = 0);
    crmm_status status = crmm_allocate(pool, NULL, 3000, 256, &refused);
    cr_assert(status != CRMM_SUCCESS && refused == &refused);
    expect_equal(crmm_last_error()->status, status);
    expect_message("upstream refused: ");
    expect_equal(info_of(pool).held, 0);
    recording.fail_per_thousand = 0;
    void *ptr = take(pool, NULL, 3000);
    crmm_deallocate(pool, NULL, ptr, 3000, 256);
    crmm_resource_release(&pool);
    recording_resource_finish(&recording);
}
