/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_RECORDING_RESOURCE_H
#define CRMM_TESTS_SUPPORT_RECORDING_RESOURCE_H

#include <pthread.h>

#include <crmm/interfaces/resource.h>

enum {
    RECORDING_BUCKETS = 256,
    RECORDING_ALIGNMENT = 256,
    RECORDING_MOST_BYTES = 1 << 28,
    RECORDING_SIZES = 64
};

typedef struct recorded_block recorded_block;

/*
 * A resource on the C heap that knows every block it has given and finds out whatever is wrong with
 * how it comes back: unknown, of another size or alignment, with memory around it written to, or by
 * another kind of call than the thread said it makes. It gives just the alignment it is asked for,
 * never more by chance, and
 * an address that came back to the next one who can use it, whatever the thread; above
 * RECORDING_ALIGNMENT it refuses. Thread-safety: safe.
 */
typedef struct recording_resource {
    struct crmm_resource base;
    pthread_mutex_t mutex;
    recorded_block *buckets[RECORDING_BUCKETS];
    void *spare[RECORDING_SIZES]; /* memory that came back last, by the logarithm of its size */
    size_t live_blocks;
    size_t live_bytes;
    size_t peak_bytes;
    size_t allocations; /* calls, refused ones included */
    size_t refused;     /* of them, by the two below */
    size_t wrong;       /* calls with something wrong */
    char first_wrong[200];
    uint64_t fail_call;         /* this call is refused, from 1; 0: none */
    unsigned fail_per_thousand; /* of the calls so many are refused, in ways that `seed` chooses */
    uint64_t seed;
    bool destroyed;
} recording_resource;

/* Set one up; it has one reference. */
void recording_resource_init(recording_resource *recording, crmm_properties properties);

/* Free what is left in it. */
void recording_resource_finish(recording_resource *recording);

/* Say what kind of call this thread is about to make of a stack over such a resource. */
void recording_expect(bool sync, crmm_stream stream);

#endif
