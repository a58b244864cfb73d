/* SPDX-License-Identifier: Apache-2.0 */
/* The shared object: linked to the program, or a plug-in. */
#include "state.h"

#include <crmm/crmm.h>

#include <stdint.h>
#include <stdlib.h>

static void ignore(const crmm_misuse *misuse, void *user_data)
{
    (void)misuse;
    (void)user_data;
}

void change_state(void)
{
    crmm_set_misuse_handler(ignore, NULL);
    char local = 0;
    crmm_deallocate_sync(crmm_malloc_memory_resource(), &local, 0, 16);
    crmm_set_misuse_handler(NULL, NULL);

    if (crmm_set_per_device_resource(0, crmm_managed_memory_resource(), NULL) != CRMM_SUCCESS) {
        abort();
    }

    void *block = NULL;
    if (crmm_allocate_sync(crmm_malloc_memory_resource(), SIZE_MAX, 16, &block) == CRMM_SUCCESS) {
        abort();
    }
}
