/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs of containers on several streams of two devices, whose memory comes from CUDA's
 * stream-ordered pools. The emulation runs them in an order of its own choosing and reports every
 * two accesses that nothing orders; the elements must be those that were written.
 */
#include <crmm/containers/device_buffer.h>
#include <crmm/containers/device_uvector.h>
#include <crmm/interfaces/resource.h>

#include <cudart_emulated.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

enum { DEVICES = 2, STREAMS = 3, SLOTS = 8, STEPS = 400, LARGEST = 6000 };

/* ---- a resource over cudaMallocAsync, on the device of its stream ---- */

static crmm_status pool_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                 size_t alignment, void **ptr)
{
    (void)resource;
    (void)alignment;
    cudaError_t error = cudaMallocAsync(ptr, bytes, stream);
    return error == cudaSuccess
               ? CRMM_SUCCESS
               : crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, (int)error, "cudaMallocAsync");
}

static void pool_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                            size_t alignment)
{
    (void)resource;
    (void)bytes;
    (void)alignment;
    cuda(cudaFreeAsync(ptr, stream));
}

static crmm_status pool_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                      void **ptr)
{
    crmm_status status = pool_allocate(resource, NULL, bytes, alignment, ptr);
    cuda(cudaStreamSynchronize(NULL));
    return status;
}

static void pool_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    pool_deallocate(resource, NULL, ptr, bytes, alignment);
}

static void pool_destroy(crmm_resource *resource)
{
    (void)resource;
}

static const crmm_resource_ops pool_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = pool_allocate_sync,
    .deallocate_sync = pool_deallocate_sync,
    .destroy = pool_destroy,
    .allocate = pool_allocate,
    .deallocate = pool_deallocate,
};

/* ---- the program's state ---- */

typedef struct slot {
    crmm_device_uvector vector;
    int device;
    size_t known; /* bytes from the start that were written */
    int value;    /* what they are */
} slot;

typedef struct program {
    struct crmm_resource pool;
    cudaStream_t streams[DEVICES][STREAMS];
    slot slots[SLOTS];
    unsigned long long random;
} program;

static unsigned pick(program *p, unsigned below)
{
    p->random = p->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(p->random >> 33) % below;
}

static cudaStream_t pick_stream(program *p, int device)
{
    return p->streams[device][pick(p, STREAMS)];
}

static size_t pick_count(program *p)
{
    return pick(p, 8) == 0 ? 0 : pick(p, LARGEST);
}

static void order(cudaStream_t earlier, int device, cudaStream_t later)
{
    cudaEvent_t event;
    int current = 0;

    cuda(cudaGetDevice(&current));
    cuda(cudaSetDevice(device)); /* an event is recorded on streams of its own device */
    cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    cuda(cudaEventRecord(event, earlier));
    cuda(cudaStreamWaitEvent(later, event, 0));
    cuda(cudaEventDestroy(event));
    cuda(cudaSetDevice(current));
}

static void forget_past_the_end(slot *s)
{
    if (s->known > s->vector.buffer.size) {
        s->known = s->vector.buffer.size;
    }
}

static void start(program *p, slot *s)
{
    int current = 0;

    crmm_device_uvector_finish(&s->vector);
    cuda(cudaGetDevice(&current));
    s->device = current;
    s->known = 0;
    expect_success(crmm_device_uvector_init(&s->vector, pick_count(p), 1 + pick(p, 8),
                                            pick_stream(p, current),
                                            pick(p, 4) == 0 ? NULL : &p->pool));
}

/* ---- steps ---- */

static void kernel(slot *s, int write, int value, size_t bytes)
{
    struct cudart_emulated_range range = {s->vector.buffer.data, bytes, write, value};
    if (bytes > 0) {
        cuda(cudart_emulated_kernel(s->vector.buffer.stream, &range, 1, NULL, NULL));
    }
}

static void write_all(program *p, slot *s)
{
    s->value = (int)pick(p, 256);
    s->known = s->vector.buffer.size;
    kernel(s, 1, s->value, s->known);
}

static void change(program *p, slot *s)
{
    cudaStream_t stream = pick_stream(p, s->device);

    switch (pick(p, 4)) {
    case 0:
        expect_success(crmm_device_uvector_resize(&s->vector, pick_count(p), stream));
        break;
    case 1:
        expect_success(crmm_device_uvector_reserve(&s->vector, pick_count(p), stream));
        break;
    case 2:
        expect_success(crmm_device_uvector_shrink_to_fit(&s->vector, stream));
        break;
    default:
        expect_success(crmm_device_uvector_set_stream(&s->vector, stream));
        break;
    }
    forget_past_the_end(s);
}

/* The clone's stream comes after what was done to the other, and the other's goes on after it. */
static void clone_slot(program *p, slot *s, slot *other)
{
    int current = 0;

    if (s == other) {
        return;
    }
    crmm_device_uvector_finish(&s->vector);
    cuda(cudaGetDevice(&current));
    cudaStream_t stream = pick_stream(p, current);
    order(other->vector.buffer.stream, other->device, stream);
    expect_success(crmm_device_uvector_init_clone(&s->vector, &other->vector, stream, &p->pool));
    order(stream, current, other->vector.buffer.stream);
    s->device = current;
    s->known = other->known;
    s->value = other->value;
}

static void move_slot(program *p, slot *s, slot *other)
{
    crmm_device_uvector_move(&s->vector, &other->vector);
    if (s == other) {
        return;
    }
    s->device = other->device;
    s->known = other->known;
    s->value = other->value;
    start(p, other);
}

static void release_slot(program *p, slot *s)
{
    crmm_device_buffer buffer;

    crmm_device_uvector_release(&s->vector, &buffer);
    expect_success(crmm_device_buffer_resize(&buffer, pick_count(p), pick_stream(p, s->device)));
    crmm_device_buffer_finish(&buffer);
    start(p, s);
}

static void access_element(program *p, slot *s)
{
    unsigned char element[8];
    size_t element_size = s->vector.element_size;
    size_t count = s->known / element_size;

    if (count == 0) {
        return;
    }
    size_t index = pick(p, (unsigned)count);
    if (pick(p, 2) == 0) {
        memset(element, s->value, sizeof(element));
        expect_success(
            crmm_device_uvector_set_element(&s->vector, index, element, s->vector.buffer.stream));
        memset(element, ~s->value, sizeof(element));
        return;
    }
    expect_success(
        crmm_device_uvector_element(&s->vector, index, s->vector.buffer.stream, element));
    for (size_t i = 0; i < element_size; i++) {
        expect_equal(element[i], s->value);
    }
}

static void step(program *p)
{
    slot *s = &p->slots[pick(p, SLOTS)];

    cuda(cudaSetDevice((int)pick(p, DEVICES))); /* the containers know their own */
    switch (pick(p, 9)) {
    case 0:
        start(p, s);
        break;
    case 1:
        kernel(s, 0, -1, s->known);
        break;
    case 2:
    case 3:
        write_all(p, s);
        break;
    case 4:
        clone_slot(p, s, &p->slots[pick(p, SLOTS)]);
        break;
    case 5:
        move_slot(p, s, &p->slots[pick(p, SLOTS)]);
        break;
    case 6:
        access_element(p, s);
        break;
    case 7:
        if (pick(p, 4) == 0) {
            release_slot(p, s);
        }
        break;
    default:
        change(p, s);
        break;
    }
}

static void set_up(program *p, unsigned long long seed)
{
    cudart_emulated_reset();
    cr_assert(cudart_emulated_set_devices(DEVICES) == 0);
    cudart_emulated_set_seed(seed);
    memset(p, 0, sizeof(*p));
    p->random = seed * 7919 + 1;
    crmm_resource_init(&p->pool, &pool_ops, "pool_of_cuda",
                       CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    for (int device = 0; device < DEVICES; device++) {
        cuda(cudaSetDevice(device));
        for (int i = 0; i < STREAMS; i++) {
            p->streams[device][i] = make_stream();
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        start(p, &p->slots[i]);
    }
}

static void expect_no_violation(unsigned long long seed)
{
    cr_assert(cudart_emulated_violations() == 0, "seed %llu: %s", seed,
              cudart_emulated_violation(0));
}

static size_t allocated(int device)
{
    struct cudart_emulated_usage usage;
    cr_assert(cudart_emulated_usage(device, &usage) == 0);
    return usage.allocated;
}

Test(emulation_container_programs, random_programs_order_every_access)
{
    static program p;

    misuse_recorder_start();
    for (unsigned long long seed = 0; seed < 30; seed++) {
        set_up(&p, seed);
        for (int i = 0; i < STEPS; i++) {
            step(&p);
        }
        for (int i = 0; i < SLOTS; i++) {
            slot *s = &p.slots[i];
            cuda(cudaStreamSynchronize(s->vector.buffer.stream));
            cr_assert(device_has(s->vector.buffer.data, s->value, s->known), "seed %llu", seed);
            crmm_device_uvector_finish(&s->vector);
        }
        for (int device = 0; device < DEVICES; device++) {
            cuda(cudaSetDevice(device));
            cuda(cudaDeviceSynchronize());
            expect_equal(allocated(device), 0);
        }
        expect_no_violation(seed);
    }
    expect_equal(misuse_recorded()->count, 0);
}

/* That the programs above would be caught if something were not ordered. */
Test(emulation_container_programs, what_is_not_ordered_is_found)
{
    static program p;
    slot *s = &p.slots[0];

    set_up(&p, 1);
    (void)cudart_emulated_set_option("quiet", 1);
    expect_success(crmm_device_uvector_resize(&s->vector, 100, s->vector.buffer.stream));
    write_all(&p, s);
    cudaStream_t other = p.streams[s->device][s->vector.buffer.stream == p.streams[s->device][0]];
    crmm_device_uvector_set_stream_unordered(&s->vector, other);
    write_all(&p, s);
    cuda(cudaDeviceSynchronize());
    cuda(cudaSetDevice(1 - s->device));
    cuda(cudaDeviceSynchronize());
    cr_assert(cudart_emulated_violations() > 0);
}
