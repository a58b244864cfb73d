/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_CUDA_H
#define CRMM_REPLAY_CUDA_H

/* The tool's own CUDA calls, once. Each gives false and says why on failure. */

#include <stdbool.h>

#include <crmm/core/stream.h>

#include "problem.h"

/* Whether there is a device to replay on. */
bool cuda_has_device(problem *why);

/* A stream that does not wait for the legacy default stream. */
bool cuda_create_stream(crmm_stream *out, problem *why);
bool cuda_destroy_stream(crmm_stream stream, problem *why);

/* Wait for all work of the device. */
bool cuda_synchronize(problem *why);

#endif
