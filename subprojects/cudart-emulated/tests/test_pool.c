/* SPDX-License-Identifier: Apache-2.0 */
/* A pool under random use by several streams: no block overlaps another, no byte is lost. */
#include "check.h"

#include <string.h>

#define STREAMS 3
#define BLOCKS 40
#define ROUNDS 1200
#define MIB ((size_t)1 << 20)

struct block {
    unsigned char *ptr;
    size_t size;
    int stream;
    unsigned char value;
};

static cudaStream_t streams[STREAMS];
static struct block blocks[BLOCKS];
static cudaMemPool_t pool;
static uint32_t state;

static uint32_t pick(uint32_t bound)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % bound;
}

static size_t number(enum cudaMemPoolAttr attr)
{
    uint64_t value = 0;
    CHECK_OK(cudaMemPoolGetAttribute(pool, attr, &value));
    return (size_t)value;
}

static size_t random_size(void)
{
    switch (pick(4)) {
    case 0:
        return 1 + pick(2000);
    case 1:
        return 1 + pick(1 << 20);
    case 2:
        return (size_t)(1 + pick(40)) * MIB;
    default:
        return (size_t)512 * (1 + pick(100));
    }
}

/* The first and the last bytes, so that large blocks cost little. */
static void fill(struct block *b)
{
    size_t part = b->size < 64 ? b->size : 64;
    b->value = (unsigned char)(1 + pick(255));
    CHECK_OK(cudaMemsetAsync(b->ptr, b->value, part, streams[b->stream]));
    CHECK_OK(cudaMemsetAsync(b->ptr + b->size - part, b->value, part, streams[b->stream]));
}

static void compare(struct block *b)
{
    unsigned char bytes[2];
    cudaStream_t s = streams[b->stream];
    CHECK_OK(cudaMemcpyAsync(&bytes[0], b->ptr, 1, cudaMemcpyDeviceToHost, s));
    CHECK_OK(cudaMemcpyAsync(&bytes[1], b->ptr + b->size - 1, 1, cudaMemcpyDeviceToHost, s));
    CHECK(bytes[0] == b->value && bytes[1] == b->value);
}

static void take(struct block *b)
{
    void *p = NULL;
    b->size = random_size();
    b->stream = (int)pick(STREAMS);
    CHECK_OK(cudaMallocFromPoolAsync(&p, b->size, pool, streams[b->stream]));
    b->ptr = p;
    fill(b);
}

static void give(struct block *b)
{
    compare(b);
    CHECK_OK(cudaFreeAsync(b->ptr, streams[b->stream]));
    b->ptr = NULL;
}

static void hand_over(struct block *b)
{
    cudaEvent_t e;
    int to = (int)pick(STREAMS);
    CHECK_OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    CHECK_OK(cudaEventRecord(e, streams[b->stream]));
    CHECK_OK(cudaStreamWaitEvent(streams[to], e, 0));
    CHECK_OK(cudaEventDestroy(e));
    b->stream = to;
}

static size_t live(void)
{
    size_t sum = 0;
    for (int i = 0; i < BLOCKS; i++) {
        sum += blocks[i].ptr != NULL ? blocks[i].size : 0;
    }
    return sum;
}

static void run(uint32_t seed)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    uint64_t threshold = seed % 3 == 0 ? 0 : UINT64_MAX;
    cudart_emulated_reset();
    cudart_emulated_set_seed(seed / 2);
    cudart_emulated_set_option("alignment", seed % 2 == 0 ? 512 : 256);
    state = seed;
    CHECK_OK(cudaMemPoolCreate(&pool, &props));
    CHECK_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    for (int i = 0; i < STREAMS; i++) {
        CHECK_OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct block *b = &blocks[pick(BLOCKS)];
        if (b->ptr == NULL) {
            take(b);
        } else if (pick(3) == 0) {
            hand_over(b);
        } else {
            give(b);
        }
        CHECK(number(cudaMemPoolAttrUsedMemCurrent) == live());
        CHECK(number(cudaMemPoolAttrReservedMemCurrent) >= live());
        if (pick(50) == 0) {
            CHECK_OK(cudaStreamSynchronize(streams[pick(STREAMS)]));
        }
        if (pick(200) == 0) {
            CHECK_OK(cudaMemPoolTrimTo(pool, pick(2) * 64 * MIB));
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].ptr != NULL) {
            give(&blocks[i]);
        }
    }
    CHECK_OK(cudaDeviceSynchronize());
    CHECK_OK(cudaMemPoolTrimTo(pool, 0));
    CHECK(number(cudaMemPoolAttrUsedMemCurrent) == 0);
    CHECK(number(cudaMemPoolAttrReservedMemCurrent) == 0);
    CHECK_OK(cudaMemPoolDestroy(pool));
    struct cudart_emulated_usage usage;
    CHECK(cudart_emulated_usage(0, &usage) == 0 && usage.physical == 0);
    CHECK(cudart_emulated_violations() == 0);
}

int main(void)
{
    for (uint32_t seed = 0; seed < 12 && check_failures == 0; seed++) {
        run(seed);
    }
    return check_result();
}
