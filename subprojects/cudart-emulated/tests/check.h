/* SPDX-License-Identifier: Apache-2.0 */
/* The few lines that the plain test programs share. */
#ifndef CHECK_H
#define CHECK_H

#include <cudart_emulated.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static int check_failures;

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            check_failures++;                                               \
        }                                                                   \
    } while (0)

#define CHECK_OK(call)                                                    \
    do {                                                                  \
        cudaError_t check_err = (call);                                   \
        if (check_err != cudaSuccess) {                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                    cudaGetErrorName(check_err));                         \
            check_failures++;                                             \
        }                                                                 \
    } while (0)

static inline int check_result(void)
{
    return check_failures == 0 ? 0 : 1;
}

#endif
