/* SPDX-License-Identifier: Apache-2.0 */
#include "streams.h"

#include <stdint.h>

#include "bench.h"
#include "null_floor.h"

bool streams_are_real(void)
{
    return false;
}

/* As far apart as CUDA's are, and none of its special handles. As ids they go up by one, but for
 * bits above the lowest ten. */
crmm_stream streams_create(void)
{
    static uintptr_t last = 0x10000;
    return (crmm_stream)__atomic_add_fetch(&last, 0x401, __ATOMIC_RELAXED);
}

void streams_destroy(crmm_stream stream)
{
    (void)stream;
}

void streams_order(crmm_stream earlier, crmm_stream later)
{
    (void)earlier;
    (void)later;
}

void streams_set_lag(uint64_t ns)
{
    null_floor_set_lag(ns);
}

void streams_hold(const crmm_stream *streams, size_t count)
{
    (void)streams;
    (void)count;
    bench_fail("there are no streams that can be held");
}

void streams_let_go(void)
{
}
