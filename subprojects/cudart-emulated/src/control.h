/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMULATED_CONTROL_H
#define EMULATED_CONTROL_H

#include "emulated.h"

#include <cudart_emulated.h>

void reset_everything(void);

#endif
