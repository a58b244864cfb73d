/* SPDX-License-Identifier: Apache-2.0 */
#include "pool_pieces.h"

/* Larger than what caches keep, so that nothing is at hand. */
static const size_t sizes[PIECES] = {2 * MIB, 1536 * KIB, 4 * MIB, 1536 * KIB, 3 * MIB, 4 * MIB};

pieces pieces_make(crmm_resource *upstream, size_t maximum, cudaStream_t stream)
{
    pieces parts = {.stream = stream};

    parts.pool = make_pool(upstream, .initial_pool_size = PIECES_ALL, .maximum_pool_size = maximum,
                           .handle_size = PIECES_ALL);
    for (size_t i = 0; i < PIECES; i++) {
        parts.ptrs[i] = take(parts.pool, stream, sizes[i]);
        cr_assert(i == 0 || (char *)parts.ptrs[i] == (char *)parts.ptrs[i - 1] + sizes[i - 1]);
    }
    expect_equal(info_of(parts.pool).held, PIECES_ALL);
    expect_equal(info_of(parts.pool).cached, 0);
    return parts;
}

void pieces_give_back(pieces *parts)
{
    crmm_deallocate(parts->pool, parts->stream, parts->ptrs[0], sizes[0], 256);
    crmm_deallocate(parts->pool, parts->stream, parts->ptrs[2], sizes[2], 256);
    crmm_deallocate_sync(parts->pool, parts->ptrs[4], sizes[4], 256);
    parts->ptrs[0] = NULL;
    parts->ptrs[2] = NULL;
    parts->ptrs[4] = NULL;
}

void pieces_end(pieces *parts)
{
    for (size_t i = 0; i < PIECES; i++) {
        if (parts->ptrs[i] != NULL) {
            crmm_deallocate(parts->pool, parts->stream, parts->ptrs[i], sizes[i], 256);
        }
    }
    expect_sound_books(parts->pool);
    crmm_resource_release(&parts->pool);
}
