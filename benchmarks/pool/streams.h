/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_STREAMS_H
#define CRMM_BENCHMARKS_POOL_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/stream.h>

/*
 * Where streams come from: made-up handles over the null floor (streams_null.c), CUDA's otherwise
 * (streams_cuda.c).
 */

/* Whether there is CUDA behind them, so that a call may block and streams can be held. */
bool streams_are_real(void);

crmm_stream streams_create(void);
void streams_destroy(crmm_stream stream);

/* Work queued on `later` from now on comes after what is queued on `earlier` now. */
void streams_order(crmm_stream earlier, crmm_stream later);

/* Let events be complete only so many nanoseconds after they were recorded; only for streams that
 * are not real. */
void streams_set_lag(uint64_t ns);

/* For how long a stream is held at most. */
#define STREAMS_HOLD_SECONDS 0.12

/* A host function holds each of these streams, from before this returns until they are let go or
 * the time is over. One set at a time. */
void streams_hold(const crmm_stream *streams, size_t count);
void streams_let_go(void);

#endif
