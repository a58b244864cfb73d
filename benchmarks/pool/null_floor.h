/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_NULL_FLOOR_H
#define CRMM_BENCHMARKS_POOL_NULL_FLOOR_H

#include <stdint.h>

/* From now on an event is complete so long after it was recorded, in nanoseconds; 0: at once. */
void null_floor_set_lag(uint64_t ns);

#endif
