/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static void sleep_milliseconds(long milliseconds)
{
    struct timespec time = {.tv_nsec = milliseconds * 1000000};
    (void)nanosleep(&time, NULL);
}

void need_devices(int count)
{
    int found = 0;
    cudaError_t error = cudaGetDeviceCount(&found);

    if (error == cudaSuccess && found >= count) {
        return;
    }
    if (getenv("CRMM_TEST_REQUIRE_GPU") != NULL && found == 0) {
        cr_assert_fail("no device, but CRMM_TEST_REQUIRE_GPU is set: %s", cudaGetErrorName(error));
    }
    cr_skip_test("needs %d devices; there are %d (%s)", count, found, cudaGetErrorName(error));
}

void claim_free_memory(void)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/crmm-tests-free-memory-%u",
                   folder != NULL ? folder : "/tmp", (unsigned)getuid());
    int file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    cr_assert(file >= 0, "%s: %s", path, strerror(errno));
    while (flock(file, LOCK_EX) != 0) {
        cr_assert(errno == EINTR, "%s: %s", path, strerror(errno));
    }
    /* The file stays open until the process ends, which is the test's own. */
}

cudaStream_t make_stream(void)
{
    cudaStream_t stream = NULL;
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

void order_streams(cudaStream_t first, cudaStream_t then)
{
    cudaEvent_t event = NULL;

    cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    cuda(cudaEventRecord(event, first));
    cuda(cudaStreamWaitEvent(then, event, 0));
    cuda(cudaEventDestroy(event));
}

void device_fill(void *ptr, int byte, size_t bytes)
{
    cuda(cudaMemset(ptr, byte, bytes));
    cuda(cudaDeviceSynchronize());
}

bool device_has(const void *ptr, int byte, size_t bytes)
{
    unsigned char *copy = malloc(bytes + 1);
    size_t same = 0;

    cr_assert(copy != NULL);
    cuda(cudaMemcpy(copy, ptr, bytes, cudaMemcpyDefault));
    while (same < bytes && copy[same] == (unsigned char)byte) {
        same++;
    }
    free(copy);
    return same == bytes;
}

static void hold(void *user_data)
{
    gate *held = user_data;

    pthread_mutex_lock(&held->mutex);
    held->entered = true;
    while (!held->open) {
        pthread_cond_wait(&held->changed, &held->mutex);
    }
    pthread_mutex_unlock(&held->mutex);
}

static bool is_entered(gate *held)
{
    pthread_mutex_lock(&held->mutex);
    bool entered = held->entered;
    pthread_mutex_unlock(&held->mutex);
    return entered;
}

void gate_close(gate *held, cudaStream_t stream)
{
    memset(held, 0, sizeof(*held));
    pthread_mutex_init(&held->mutex, NULL);
    pthread_cond_init(&held->changed, NULL);
    cuda(cudaLaunchHostFunc(stream, hold, held));
    while (!is_entered(held)) {
        /* On the emulation streams run only when somebody looks. */
        cr_assert(cudaStreamQuery(stream) == cudaErrorNotReady);
        sleep_milliseconds(1);
    }
}

void gate_open(gate *held)
{
    pthread_mutex_lock(&held->mutex);
    held->open = true;
    pthread_cond_broadcast(&held->changed);
    pthread_mutex_unlock(&held->mutex);
}

static void *open_after_a_while(void *user_data)
{
    sleep_milliseconds(100);
    gate_open(user_data);
    return NULL;
}

pthread_t gate_open_later(gate *held)
{
    pthread_t thread;
    cr_assert(pthread_create(&thread, NULL, open_after_a_while, held) == 0);
    return thread;
}

bool gate_is_open(gate *held)
{
    pthread_mutex_lock(&held->mutex);
    bool open = held->open;
    pthread_mutex_unlock(&held->mutex);
    return open;
}
