/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a program and a shared object have one state of the library or two.
 *
 * usage: sharing one|two [PLUG-IN]
 *
 * Without a plug-in the shared object is one that the program is linked to.
 */
#include "state.h"

#include <crmm/crmm.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef void change_function(void);

static change_function *find_change(const char *plug_in)
{
#ifdef PLUG_IN
    void *handle = dlopen(plug_in, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "sharing: %s\n", dlerror());
        return NULL;
    }
    void *symbol = dlsym(handle, "change_state");
    change_function *function = NULL;
    memcpy(&function, &symbol, sizeof(function));
    return function;
#else
    (void)plug_in;
    return change_state;
#endif
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        return 2;
    }
    int shared = strcmp(argv[1], "one") == 0;
    change_function *change = find_change(argc > 2 ? argv[2] : NULL);
    if (change == NULL) {
        return 2;
    }

    /* Both have used the library before they are compared. */
    crmm_resource *before = NULL;
    if (crmm_get_per_device_resource(0, &before) != CRMM_SUCCESS) {
        fprintf(stderr, "sharing: %s\n", crmm_last_error()->message);
        return 2;
    }
    change();

    crmm_resource *after = NULL;
    if (crmm_get_per_device_resource(0, &after) != CRMM_SUCCESS) {
        return 2;
    }
    int same_table = after == crmm_managed_memory_resource();
    int same_error = crmm_last_error()->status == CRMM_ERROR_OUT_OF_MEMORY;
    int same_count = crmm_misuse_count() == 1;
    crmm_resource_release(&before);
    crmm_resource_release(&after);

    printf("table %d, error record %d, misuse counter %d\n", same_table, same_error, same_count);
    return same_table == shared && same_error == shared && same_count == shared ? 0 : 1;
}
