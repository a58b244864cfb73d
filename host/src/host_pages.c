/* SPDX-License-Identifier: Apache-2.0 */
#include "host_pages.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <crmm/core/alignment.h>

/* Where the system has larger pages, they are no larger than this. */
enum { LARGE_PAGE = 2 << 20 };

/* What makes a thread worth its start. */
enum { LEAST_SHARE = 4 << 20 };

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

size_t crmm_priv_pages_extent(size_t bytes)
{
    return crmm_align_up(bytes, page_size());
}

void *crmm_priv_pages_map(size_t bytes)
{
    /* The system may promise more than it has, and end the program when the pages are touched. */
    if (bytes / page_size() > (size_t)sysconf(_SC_PHYS_PAGES)) {
        errno = ENOMEM;
        return NULL;
    }
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        return NULL;
    }
    if (bytes >= LARGE_PAGE) {
        (void)madvise(pages, bytes, MADV_HUGEPAGE); /* a hint: fewer pages are locked sooner */
    }
    return pages;
}

void crmm_priv_pages_unmap(void *pages, size_t bytes)
{
    (void)munmap(pages, bytes);
}

int crmm_priv_pages_prefer_node(void *pages, size_t bytes, size_t node)
{
    enum { BITS = 8 * sizeof(unsigned long) };
    unsigned long nodes[CRMM_PRIV_PAGES_MOST_NODES / BITS] = {0};

    nodes[node / BITS] = 1UL << node % BITS;
    /* Preferred, not bound: where the node is full, memory that is further away beats none, and the
     * system would not refuse the pages but end the program. Made without libnuma, which would be
     * needed for nothing else. The kernel takes one from the number of bits. */
    long result = syscall(SYS_mbind, pages, bytes, (unsigned long)MPOL_PREFERRED, nodes,
                          (unsigned long)CRMM_PRIV_PAGES_MOST_NODES + 1, 0UL);
    return result == 0 ? 0 : errno;
}

/* ---- touching ---- */

typedef struct part {
    pthread_t thread;
    bool started;
    char *from;
    size_t bytes;
} part;

static void *touch_part(void *data)
{
    const part *own = data;
    size_t step = page_size();

    for (size_t at = 0; at < own->bytes; at += step) {
        *(volatile char *)(own->from + at) = 0;
    }
    return NULL;
}

/* Signals are for the threads of the program. */
static void start_all(part *parts, size_t count)
{
    sigset_t all;
    sigset_t before;

    (void)sigfillset(&all);
    bool blocked = pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
    for (size_t i = 1; i < count; i++) {
        parts[i].started = pthread_create(&parts[i].thread, NULL, touch_part, &parts[i]) == 0;
    }
    if (blocked) {
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
}

void crmm_priv_pages_touch(void *pages, size_t bytes, size_t threads)
{
    size_t count = bytes / LEAST_SHARE < threads ? bytes / LEAST_SHARE : threads;
    part *parts = count == 0 ? NULL : calloc(count, sizeof(*parts));

    if (parts == NULL) {
        return; /* pages come later, then */
    }
    size_t share = crmm_priv_pages_extent(bytes / count);
    for (size_t i = 0; i < count; i++) {
        size_t from = i * share < bytes ? i * share : bytes;
        parts[i].from = (char *)pages + from;
        parts[i].bytes = bytes - from < share ? bytes - from : share;
    }
    start_all(parts, count);
    for (size_t i = 0; i < count; i++) {
        if (!parts[i].started) {
            (void)touch_part(&parts[i]); /* the caller's own, and what no thread could be had for */
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (parts[i].started) {
            (void)pthread_join(parts[i].thread, NULL);
        }
    }
    free(parts);
}
