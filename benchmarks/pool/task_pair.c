/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks.h"

#include <crmm/core/alignment.h>

/* Pairs between two questions whether to stop. */
enum { BATCH = 64 };

static bool do_pairs(worker *self, uint64_t count)
{
    crmm_resource *resource = self->resource;
    crmm_stream stream = self->streams[0];
    size_t bytes = self->of->parameter;
    void *block = NULL;

    /* One pair with the accounts, which all further ones leave as they are. */
    if (!worker_allocate(self, stream, bytes, &block)) {
        return false;
    }
    worker_free(self, stream, block, bytes);
    for (uint64_t i = 1; i < count; i++) {
        if (crmm_allocate(resource, stream, bytes, CRMM_DEVICE_ALIGNMENT, &block) != CRMM_SUCCESS) {
            worker_failed(self, "an allocation failed");
            return false;
        }
        crmm_deallocate(resource, stream, block, bytes, CRMM_DEVICE_ALIGNMENT);
    }
    return true;
}

static void run(worker *self, uint64_t most)
{
    uint64_t done = 0;
    worker_begin(self);

    while (done < most && !worker_should_stop(self)) {
        uint64_t batch = most - done < BATCH ? most - done : BATCH;
        if (!do_pairs(self, batch)) {
            break;
        }
        done += batch;
    }
    worker_end(self);
    self->steps = done;
}

static void begin(worker *self)
{
    (void)do_pairs(self, self->of->warm_up);
}

static void end(worker *self)
{
    (void)self;
}

const task_class pair_task = {.begin = begin, .run = run, .end = end};
