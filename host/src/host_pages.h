/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_HOST_SRC_HOST_PAGES_H
#define CRMM_HOST_SRC_HOST_PAGES_H

#include <stddef.h>

/* Host memory in whole pages, straight from the system, and where it comes to lie. Thread-safety:
 * safe. */

/* What a request takes; at most PTRDIFF_MAX are asked for. */
size_t crmm_priv_pages_extent(size_t bytes);

/* Addresses for so many bytes, a multiple of the page size; pages come when they are touched. NULL:
 * there is not so much, and errno says why. */
void *crmm_priv_pages_map(size_t bytes);

/* Give them back. */
void crmm_priv_pages_unmap(void *pages, size_t bytes);

/* Let pages that are not there yet come from a NUMA node, as long as it has any. 0, or the errno of
 * a system that does not place them. */
int crmm_priv_pages_prefer_node(void *pages, size_t bytes, size_t node);

/* Have all pages there, brought by up to so many threads at a time, of which the caller is one. For
 * less than some megabytes each there are fewer threads; for little memory nothing is done. */
void crmm_priv_pages_touch(void *pages, size_t bytes, size_t threads);

enum { CRMM_PRIV_PAGES_MOST_NODES = 1024 };

#endif
