/* SPDX-License-Identifier: Apache-2.0 */
#include "common_checks.h"

#include <pthread.h>

#include <crmm/core/alignment.h>
#include <crmm/core/error.h>
#include <cuda_runtime_api.h>

#include "random_numbers.h"

enum { BLOCKS = 100, STEPS = 200, THREADS = 4, KIB = 1024 };

static crmm_status take(const common_case *of, size_t bytes, void **ptr)
{
    return of->is_sync ? crmm_allocate_sync(of->mr, bytes, CRMM_DEVICE_ALIGNMENT, ptr)
                       : crmm_allocate(of->mr, of->stream, bytes, CRMM_DEVICE_ALIGNMENT, ptr);
}

static void give(const common_case *of, void *ptr, size_t bytes)
{
    if (of->is_sync) {
        crmm_deallocate_sync(of->mr, ptr, bytes, CRMM_DEVICE_ALIGNMENT);
    } else {
        crmm_deallocate(of->mr, of->stream, ptr, bytes, CRMM_DEVICE_ALIGNMENT);
    }
}

static bool is_good(const void *ptr)
{
    return ptr != NULL && crmm_is_pointer_aligned(ptr, CRMM_DEVICE_ALIGNMENT);
}

const char *common_various_sizes(const common_case *of)
{
    static const size_t sizes[] = {4, KIB, (size_t)KIB * KIB, (size_t)1 << 30};
    void *ptr = NULL;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        crmm_status status = take(of, sizes[i], &ptr);
        if (status == CRMM_SUCCESS) {
            bool good = is_good(ptr);
            give(of, ptr, sizes[i]);
            if (!good) {
                return "an address is NULL or not aligned";
            }
        } else if (status != CRMM_ERROR_OUT_OF_MEMORY || sizes[i] <= of->most) {
            return crmm_last_error()->message;
        }
    }
    ptr = NULL;
    if (take(of, (size_t)1 << 50, &ptr) != CRMM_ERROR_OUT_OF_MEMORY || ptr != NULL) {
        return "1 PiB is not out of memory";
    }
    if (take(of, 0, &ptr) != CRMM_SUCCESS || ptr != NULL) {
        return "0 bytes are not NULL";
    }
    return NULL;
}

const char *common_random(const common_case *of)
{
    uint64_t random = of->seed;
    void *ptrs[BLOCKS];
    size_t sizes[BLOCKS];
    size_t count = 0;
    const char *wrong = NULL;

    for (; count < BLOCKS; count++) {
        sizes[count] = 1 + random_below(&random, of->most);
        if (take(of, sizes[count], &ptrs[count]) != CRMM_SUCCESS) {
            wrong = crmm_last_error()->message;
            break;
        }
        if (!is_good(ptrs[count])) {
            wrong = "an address is NULL or not aligned";
        }
    }
    while (count-- > 0) {
        give(of, ptrs[count], sizes[count]);
    }
    return wrong;
}

const char *common_mixed(const common_case *of)
{
    uint64_t random = of->seed;
    void *ptrs[BLOCKS];
    size_t sizes[BLOCKS];
    size_t live = 0;
    size_t made = 0;

    for (int i = 0; i < STEPS || live > 0; i++) {
        if (made < BLOCKS && (live == 0 || random_below(&random, 100) < 53)) {
            sizes[live] = 1 + random_below(&random, of->most);
            if (take(of, sizes[live], &ptrs[live]) != CRMM_SUCCESS) {
                return crmm_last_error()->message;
            }
            live++;
            made++;
        } else if (live > 0) {
            size_t chosen = random_below(&random, live);
            give(of, ptrs[chosen], sizes[chosen]);
            live--;
            ptrs[chosen] = ptrs[live];
            sizes[chosen] = sizes[live];
        }
    }
    return made == BLOCKS ? NULL : "not all were made";
}

const char *common_different(const common_case *of)
{
    void *one = NULL;
    void *other = NULL;

    if (take(of, 8, &one) != CRMM_SUCCESS || take(of, 8, &other) != CRMM_SUCCESS) {
        return crmm_last_error()->message;
    }
    give(of, one, 8);
    give(of, other, 8);
    return one != other ? NULL : "two live blocks have one address";
}

static const char *all_of(const common_case *of)
{
    const char *wrong = common_various_sizes(of);

    wrong = wrong != NULL ? wrong : common_random(of);
    wrong = wrong != NULL ? wrong : common_mixed(of);
    return wrong != NULL ? wrong : common_different(of);
}

const char *common_all(crmm_resource *mr, size_t most)
{
    common_case of = {.mr = mr, .most = most, .seed = 1};
    cudaStream_t stream = NULL;

    const char *wrong = all_of(&of);
    of.is_sync = true;
    wrong = wrong != NULL ? wrong : all_of(&of);
    of.is_sync = false;
    if (cudaStreamCreate(&stream) != cudaSuccess) {
        return "no stream";
    }
    of.stream = stream;
    wrong = wrong != NULL ? wrong : all_of(&of);
    if (cudaStreamSynchronize(stream) != cudaSuccess || cudaStreamDestroy(stream) != cudaSuccess) {
        return "the stream failed";
    }
    return wrong;
}

/* ---- threads ---- */

typedef struct worker {
    crmm_resource *mr;
    size_t most;
    const char *wrong;
} worker;

static void *work(void *data)
{
    worker *own = data;
    own->wrong = common_all(own->mr, own->most);
    return NULL;
}

const char *common_all_by_threads(crmm_resource *mr, size_t most)
{
    pthread_t threads[THREADS];
    worker workers[THREADS];
    const char *wrong = NULL;

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.mr = mr, .most = most};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) {
            return "no thread";
        }
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        wrong = workers[i].wrong != NULL ? workers[i].wrong : wrong;
    }
    return wrong;
}

typedef struct hand_over {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    crmm_resource *mr;
    crmm_stream to;
    cudaEvent_t event;
    size_t made;
    bool ended;
    void *ptrs[BLOCKS];
    size_t sizes[BLOCKS];
    const char *wrong;
} hand_over;

static void *give_back(void *data)
{
    hand_over *own = data;

    for (size_t i = 0; i < BLOCKS; i++) {
        pthread_mutex_lock(&own->mutex);
        while (own->made <= i && !own->ended) {
            pthread_cond_wait(&own->changed, &own->mutex);
        }
        bool any = own->made > i;
        if (any && cudaStreamWaitEvent(own->to, own->event, 0) != cudaSuccess) {
            own->wrong = "a stream cannot wait";
        }
        pthread_mutex_unlock(&own->mutex);
        if (!any) {
            break;
        }
        crmm_deallocate(own->mr, own->to, own->ptrs[i], own->sizes[i], CRMM_DEVICE_ALIGNMENT);
    }
    return NULL;
}

const char *common_hand_over(crmm_resource *mr, crmm_stream from, crmm_stream to, size_t most)
{
    hand_over own = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                     .changed = PTHREAD_COND_INITIALIZER,
                     .mr = mr,
                     .to = to};
    const common_case of = {.mr = mr, .stream = from};
    uint64_t random = 1;
    pthread_t consumer;
    const char *wrong = NULL;

    if (cudaEventCreateWithFlags(&own.event, cudaEventDisableTiming) != cudaSuccess ||
        pthread_create(&consumer, NULL, give_back, &own) != 0) {
        return "no event, or no thread";
    }
    for (size_t i = 0; i < BLOCKS && wrong == NULL; i++) {
        own.sizes[i] = 1 + random_below(&random, most);
        if (take(&of, own.sizes[i], &own.ptrs[i]) != CRMM_SUCCESS) {
            wrong = crmm_last_error()->message;
            break;
        }
        pthread_mutex_lock(&own.mutex);
        if (cudaEventRecord(own.event, from) != cudaSuccess) {
            wrong = "no event is recorded";
        }
        own.made++;
        pthread_cond_signal(&own.changed);
        pthread_mutex_unlock(&own.mutex);
    }
    pthread_mutex_lock(&own.mutex);
    own.ended = true;
    pthread_cond_signal(&own.changed);
    pthread_mutex_unlock(&own.mutex);
    (void)pthread_join(consumer, NULL);
    if (cudaDeviceSynchronize() != cudaSuccess || cudaEventDestroy(own.event) != cudaSuccess) {
        wrong = "the device failed";
    }
    return wrong != NULL ? wrong : own.wrong;
}
