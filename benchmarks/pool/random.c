/* SPDX-License-Identifier: Apache-2.0 */
#include "random.h"

#include <math.h>

uint32_t size_fractions[SIZE_FRACTIONS];

void sizes_prepare(void)
{
    for (int i = 0; i < SIZE_FRACTIONS; i++) {
        size_fractions[i] = (uint32_t)(exp2((double)i / SIZE_FRACTIONS) * 65536.0);
    }
}
