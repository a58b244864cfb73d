/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_FAULT_SWEEP_H
#define CRMM_TESTS_SUPPORT_FAULT_SWEEP_H

/*
 * CUDA calls that fail one by one, on the emulation: a program runs again for every position of
 * every call that it makes.
 */

#include <stdbool.h>
#include <stddef.h>

/* What fails in one run. */
typedef struct fault {
    const char *call;
    unsigned long long position; /* which of the calls, from 1; 0: none fails */
    bool lasts;                  /* and all that follow it */
} fault;

/* Around what is swept: from here on the call fails, with cudaErrorIllegalAddress, */
void fault_begin(const fault *one);
/* and here it ends. Whether the call was made. Every call in between must be in the list. */
bool fault_end(const fault *one);

/* Whether it is a fault of this call. */
bool fault_is_of(const fault *one, const char *call);

/* What device 0 and CUDA have given and not got back. */
typedef struct holdings {
    size_t physical, allocated; /* bytes */
    unsigned long long ranges, events, streams;
} holdings;

void note_holdings(holdings *out);

/*
 * Whether all is as it was, though the call of the fault, if it was made, gave or took nothing. An
 * event or a stream that cannot be destroyed is CUDA's.
 */
bool are_holdings_back(const holdings *before, const fault *one, bool is_met);

/*
 * A program in one of its variants, with fault_begin() and fault_end() in it: the answer is the
 * latter's. What has to hold after any fault, it asserts.
 */
typedef bool fault_program(size_t variant, const fault *one);

/* A call that a program makes. */
typedef struct fault_call {
    const char *name;
    int part; /* of the sweep, which several tests may share */
} fault_call;

/*
 * Run the program without a fault, and with every fault of every call of a part: one position after
 * the other, until there are no more calls of that name. Each must be made, in one variant at
 * least. The list has all that the program calls.
 */
void sweep_faults(const fault_call *calls, size_t count, int part, size_t variants,
                  fault_program *run);

#endif
