/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDART_EMULATED_CUDA_RUNTIME_H
#define CUDART_EMULATED_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#endif
