/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each adaptor of the build while the heap fails: every call of malloc() and its kin in turn, in
 * creating the adaptor and in allocating from it. Nothing may be lost, and giving back must need no
 * memory.
 */
#include <stdio.h>
#include <stdlib.h>

#include "random_stack.h"

enum { BLOCKS = 200, MOST_CALLS = 2000 };

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static uint64_t fail_in; /* this call of them from now on fails; 0: none */
static bool failed;
static bool forbidden; /* no call may be made at all */

static void check(int condition, const char *what, const char *adaptor)
{
    if (!condition) {
        (void)fprintf(stderr, "program_host_memory: %s: %s\n", adaptor, what);
        exit(1);
    }
}

/* Whether a call of the heap may succeed. */
static bool may_have(void)
{
    check(!forbidden, "memory was asked for", "giving back");
    if (fail_in != 0 && --fail_in == 0) {
        failed = true;
        return false;
    }
    return true;
}

/* The linker puts these in the place of the C library's in all that is linked here. */
void *__wrap_malloc(size_t size)
{
    return may_have() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return may_have() ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *memory, size_t size)
{
    return may_have() ? __real_realloc(memory, size) : NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return may_have() ? __real_aligned_alloc(alignment, size) : NULL;
}

static size_t size_of(size_t block)
{
    return 1 + block * 37;
}

static size_t alignment_of(size_t block)
{
    return (size_t)1 << block % 14;
}

static void use(const random_layer_class *of, crmm_resource *mr)
{
    static void *blocks[BLOCKS];

    recording_expect(true, NULL);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = NULL;
        crmm_status status = crmm_allocate_sync(mr, size_of(i), alignment_of(i), &blocks[i]);
        check((status == CRMM_SUCCESS) == (blocks[i] != NULL), "output", of->name);
        check(status == CRMM_SUCCESS || crmm_last_error()->status == status, "record", of->name);
    }
    fail_in = 0;
    forbidden = true;
    for (size_t i = 0; i < BLOCKS; i++) {
        crmm_deallocate_sync(mr, blocks[i], size_of(i), alignment_of(i));
    }
    forbidden = false;
    check(of->is_idle == NULL || of->is_idle(mr), "counters", of->name);
}

/* With the `call`th call of the heap failing; whether there were that many. */
static bool run(const random_layer_class *of, uint64_t call)
{
    static recording_resource bottom;
    crmm_resource *own = &bottom.base;
    crmm_resource *mr = NULL;
    uint64_t random = 3;

    recording_resource_init(&bottom, CRMM_HOST_ACCESSIBLE);
    fail_in = call;
    failed = false;
    crmm_status status = of->create(&bottom.base, &random, &mr);
    if (status == CRMM_SUCCESS) {
        use(of, mr);
    } else {
        check(status == CRMM_ERROR_OUT_OF_MEMORY && crmm_last_error()->status == status,
              "status of create", of->name);
        check(failed && mr == NULL, "create", of->name);
    }
    fail_in = 0;
    crmm_resource_release(&mr);
    crmm_resource_release(&own);
    check(bottom.destroyed, "a reference was lost", of->name);
    check(bottom.live_blocks == 0, "a block was lost", of->name);
    check(bottom.wrong == 0, bottom.first_wrong, of->name);
    check(crmm_misuse_count() == 0, "misuse", of->name);
    recording_resource_finish(&bottom);
    return failed;
}

int main(void)
{
    for (const random_layer_class *of = random_layer_classes; of->name != NULL; of++) {
        uint64_t call = 1;
        while (run(of, call)) {
            call++;
            check(call < MOST_CALLS, "no end", of->name);
        }
        check(call > 1, "no call failed", of->name);
    }
    return 0;
}
