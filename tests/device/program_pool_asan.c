/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool that validates, over memory of the host: AddressSanitizer ends the program at the first
 * byte past a block, and at a use after the block was given back. Each fault is made by a child,
 * whose report must say what it is. (User report 73: within a pool no tool saw an overrun.)
 */
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/core/options.h>
#include <crmm/device/pool_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>
#include <crmm/host/pinned_host_memory_resource.h>

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_pool_asan: %s (%s)\n", what, crmm_last_error()->message);
        exit(1);
    }
}

/* Whether a child that touches a byte is ended for it. */
static int faults(volatile char *at, int writes)
{
    char report[4096] = "";
    size_t length = 0;
    int status = 0;
    int ends[2];

    check(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
        (void)close(ends[0]);
        __sanitizer_set_report_fd((void *)(intptr_t)ends[1]);
        if (writes) {
            *at = 1;
        } else {
            (void)*at;
        }
        _exit(0);
    }
    (void)close(ends[1]);
    for (;;) {
        char more[1024];
        ssize_t got = read(ends[0], more, sizeof(more));
        if (got <= 0) {
            break;
        }
        size_t room = sizeof(report) - 1 - length;
        size_t kept = (size_t)got < room ? (size_t)got : room;
        memcpy(report + length, more, kept);
        length += kept;
    }
    (void)close(ends[0]);
    check(waitpid(child, &status, 0) == child, "waitpid");
    return status != 0 && strstr(report, "use-after-poison") != NULL;
}

static void try_pool(crmm_resource *upstream)
{
    crmm_resource *pool = NULL;
    char *ptr = NULL;
    char *other = NULL;

    check(crmm_pool_memory_resource_create(upstream,
                                           CRMM_OPTIONS(crmm_pool_memory_resource, .validate = 1),
                                           &pool) == CRMM_SUCCESS,
          "create");
    check(crmm_allocate_sync(pool, 1003, 256, (void **)&ptr) == CRMM_SUCCESS &&
              crmm_allocate_sync(pool, 5 << 20, 4096, (void **)&other) == CRMM_SUCCESS,
          "allocate");
    memset(ptr, 1, 1003);
    memset(other, 1, 5 << 20);
    check(!faults(ptr, 1) && !faults(ptr + 1002, 1), "a byte of the block is the program's");
    check(faults(ptr + 1003, 1) && faults(ptr + 1003, 0), "the byte past the end");
    check(faults(ptr - 1, 1) && faults(ptr - 256, 0), "a byte before the start");
    check(faults(other + (5 << 20), 1) && faults(other - 1, 1), "beside a large block");
    crmm_deallocate_sync(pool, ptr, 1003, 256);
    check(faults(ptr, 0) && faults(ptr + 1002, 1), "a use after it was given back");
    check(!faults(other, 0), "the other block is still there");

    /* It can be had again, and is given back to upstream as it came. */
    for (int i = 0; i < 100; i++) {
        check(crmm_allocate_sync(pool, (size_t)i * 977 + 1, 256, (void **)&ptr) == CRMM_SUCCESS,
              "allocate again");
        memset(ptr, 2, (size_t)i * 977 + 1);
        crmm_deallocate_sync(pool, ptr, (size_t)i * 977 + 1, 256);
    }
    size_t released = 0;
    crmm_deallocate_sync(pool, other, 5 << 20, 4096);
    check(crmm_resource_trim(pool, 0, &released) == CRMM_SUCCESS && released > 0, "trim");
    crmm_resource_release(&pool);
    check(crmm_allocate_sync(upstream, 8 << 20, 256, (void **)&ptr) == CRMM_SUCCESS &&
              __asan_region_is_poisoned(ptr, 8 << 20) == NULL,
          "upstream's memory is clean");
    crmm_deallocate_sync(upstream, ptr, 8 << 20, 256);
    check(crmm_misuse_count() == 0, "misuse");
}

int main(void)
{
    try_pool(crmm_malloc_memory_resource());
    try_pool(crmm_pinned_host_memory_resource());
    return 0;
}
