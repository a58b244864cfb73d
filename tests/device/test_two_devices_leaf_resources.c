/* SPDX-License-Identifier: Apache-2.0 */
/* What belongs to a device, used while another one is current. */
#include <crmm/device/cuda_async_memory_resource.h>
#include <crmm/device/sam_headroom_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/host/pinned_host_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

#ifdef CUDART_EMULATED
#include <cudart_emulated.h>
#endif

enum { BYTES = 1 << 20 };

static crmm_status create_vmm(crmm_resource **out)
{
    return crmm_vmm_memory_resource_create(NULL, out);
}

static crmm_status create_pinned(crmm_resource **out)
{
    return crmm_pinned_host_memory_resource_create(
        CRMM_OPTIONS(crmm_pinned_host_memory_resource, .touch_threads = 1), out);
}

static crmm_status create_sam_headroom(crmm_resource **out)
{
#ifdef CUDART_EMULATED
    cudart_emulated_set_attribute(-1, cudaDevAttrPageableMemoryAccess, 1);
#endif
    return crmm_sam_headroom_memory_resource_create(0, out);
}

/* Those whose frees wait. */
static crmm_status (*const creates[])(crmm_resource **out) = {create_vmm, create_pinned,
                                                              create_sam_headroom};

enum { KINDS = sizeof(creates) / sizeof(creates[0]) };

/* NULL: the device has not what it needs. */
static crmm_resource *create(int kind)
{
    crmm_resource *mr = NULL;
    crmm_status status = creates[kind](&mr);

    cr_assert(status == CRMM_SUCCESS || status == CRMM_ERROR_UNSUPPORTED, "%s",
              crmm_last_error()->message);
    return mr;
}

/* A default stream is that of the resource's device: work on it may still use what is freed. */
Test(two_devices_leaf_resources, frees_wait_for_the_default_stream_of_their_own_device)
{
    crmm_stream const streams[] = {NULL, CRMM_STREAM_LEGACY, CRMM_STREAM_PER_THREAD};

    need_devices(2);
    misuse_recorder_start();
    for (int kind = 0; kind < KINDS; kind++) {
        cuda(cudaSetDevice(0));
        crmm_resource *mr = create(kind);
        for (int i = 0; mr != NULL && i < 3; i++) {
            gate held;
            void *ptr = NULL;
            int current = -1;
            cuda(cudaSetDevice(1));
            expect_success(crmm_allocate(mr, streams[i], BYTES, 256, &ptr));
            cuda(cudaSetDevice(0));
            gate_close(&held, streams[i]);
            cuda(cudaMemsetAsync(ptr, 1, BYTES, streams[i]));
            cuda(cudaSetDevice(1));
            pthread_t opener = gate_open_later(&held);
            crmm_deallocate(mr, streams[i], ptr, BYTES, 256);
            cr_assert(gate_is_open(&held), "%s freed under pending work", crmm_resource_name(mr));
            cr_assert(pthread_join(opener, NULL) == 0);
            cuda(cudaGetDevice(&current));
            expect_equal(current, 1);
        }
        crmm_resource_release(&mr);
    }
    expect_equal(misuse_recorded()->count, 0);
}

/* The capture of a blocking stream forbids the legacy stream of its own device only. */
Test(two_devices_leaf_resources, a_capture_on_another_device_forbids_nothing)
{
    need_devices(2);
    misuse_recorder_start();
    for (int kind = 0; kind < KINDS; kind++) {
        cudaStream_t blocking = NULL;
        cudaGraph_t graph = NULL;
        void *ptr = NULL;

        cuda(cudaSetDevice(0));
        crmm_resource *mr = create(kind);
        cuda(cudaSetDevice(1));
        cuda(cudaStreamCreate(&blocking));
        cuda(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal));
        if (mr != NULL) {
            expect_success(crmm_allocate(mr, NULL, BYTES, 256, &ptr));
            crmm_deallocate(mr, NULL, ptr, BYTES, 256);
        }
        cuda(cudaStreamEndCapture(blocking, &graph));
        cuda(cudaGraphDestroy(graph));
        cuda(cudaStreamDestroy(blocking));
        crmm_resource_release(&mr);
    }
    expect_equal(misuse_recorded()->count, 0);
}

/* ---- peers ---- */

/* What one device has written the other can read, in memory that lets it in, and write. */
Test(two_devices_leaf_resources, peers_that_were_let_in_use_the_memory)
{
    const int peer = 1;
    int can = 0;
    crmm_resource *mrs[2] = {NULL};

    need_devices(2);
    cuda(cudaDeviceCanAccessPeer(&can, 1, 0));
    crmm_status expected = can != 0 ? CRMM_SUCCESS : CRMM_ERROR_UNSUPPORTED;
    expect_status(crmm_cuda_async_memory_resource_create(
                      CRMM_OPTIONS(crmm_cuda_async_memory_resource, .peer_devices = &peer,
                                   .peer_device_count = 1),
                      &mrs[0]),
                  expected);
    expect_status(
        crmm_vmm_memory_resource_create(
            CRMM_OPTIONS(crmm_vmm_memory_resource, .peer_devices = &peer, .peer_device_count = 1),
            &mrs[1]),
        expected);
    for (int i = 0; i < 2 && can != 0; i++) {
        void *ptr = NULL;
        expect_success(crmm_allocate_sync(mrs[i], BYTES, 256, &ptr));
        device_fill(ptr, 1, BYTES);
        cuda(cudaSetDevice(1));
        cudaStream_t stream = make_stream(); /* of the peer, which writes by itself */
        cuda(cudaMemsetAsync(ptr, 2, BYTES / 2, stream));
        cuda(cudaStreamSynchronize(stream));
        cuda(cudaStreamDestroy(stream));
        cuda(cudaSetDevice(0));
        cr_assert(device_has(ptr, 2, BYTES / 2));
        cr_assert(device_has((char *)ptr + BYTES / 2, 1, BYTES / 2));
        crmm_deallocate_sync(mrs[i], ptr, BYTES, 256);
    }
    crmm_resource_release(&mrs[0]);
    crmm_resource_release(&mrs[1]);
}
