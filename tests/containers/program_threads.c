/* SPDX-License-Identifier: Apache-2.0 */
/* Containers of many threads on one resource, and an allocator that they share. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/containers/polymorphic_allocator.h>
#include <crmm/containers/typed.h>
#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/device/cuda_device.h>

enum { THREADS = 6, ROUNDS = 100 };

CRMM_DEVICE_UVECTOR_DEFINE(longs, int64_t)
CRMM_DEVICE_SCALAR_DEFINE(number, int64_t)

static crmm_polymorphic_allocator shared;

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_threads: %s (%s)\n", what, crmm_last_error()->message);
        exit(1);
    }
}

static void *work(void *argument)
{
    const int64_t mine = *(const int64_t *)argument;
    const crmm_stream stream = CRMM_STREAM_PER_THREAD; /* a stream of each thread's own */

    for (int round = 0; round < ROUNDS; round++) {
        longs vector = {0};
        number scalar = {0};
        void *block = NULL;
        int64_t read = -1;
        check(!longs_init(&vector, 1 + (size_t)round, stream, NULL), "init");
        check(!longs_set_element(&vector, (size_t)round, &mine, stream), "set_element");
        check(!longs_resize(&vector, 2 + (size_t)round, stream), "resize");
        check(!longs_element(&vector, (size_t)round, stream, &read) && read == mine, "element");
        check(!number_init(&scalar, &mine, stream, NULL), "init of a scalar");
        check(!number_value(&scalar, stream, &read) && read == mine, "value");
        check(!crmm_polymorphic_allocator_allocate(&shared, 10, stream, &block), "allocate");
        crmm_polymorphic_allocator_deallocate(&shared, block, 10, stream);
        longs_finish(&vector);
        number_finish(&scalar);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int64_t values[THREADS];
    int devices = 0;

    if (crmm_get_num_cuda_devices(&devices) != CRMM_SUCCESS || devices == 0) {
        (void)fprintf(stderr, "no device: %s\n", crmm_last_error()->message);
        return getenv("CRMM_TEST_REQUIRE_GPU") != NULL ? 1 : 77;
    }
    check(!crmm_polymorphic_allocator_init(&shared, sizeof(int64_t), NULL),
          "init of the allocator");
    for (int i = 0; i < THREADS; i++) {
        values[i] = i;
        check(pthread_create(&threads[i], NULL, work, &values[i]) == 0, "pthread_create");
    }
    for (int i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "pthread_join");
    }
    crmm_polymorphic_allocator_finish(&shared);
    check(crmm_misuse_count() == 0, "no misuse");
    return 0;
}
