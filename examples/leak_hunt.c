/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds memory that is given back wrongly or never. Validation is on by default in debug builds;
 * CRMM_VALIDATE=1 in the environment turns it on in any program.
 */
#include <crmm/crmm.h>

#include <stdio.h>
#include <stdlib.h>

/* By default a finding is one line on standard error; a program may collect them itself. */
static void note(const crmm_misuse *found, void *user_data)
{
    printf("found: %s\n", found->message);
    ++*(int *)user_data;
}

int main(void)
{
    int findings = 0;
    void *block = NULL;
    crmm_resource *limited = NULL;

    /* Read once, at the first use of the library. */
    if (setenv("CRMM_VALIDATE", "1", 1) != 0) {
        return 1;
    }
    crmm_set_misuse_handler(note, &findings);
    crmm_resource *cuda = crmm_cuda_memory_resource();
    if (crmm_allocate(cuda, CRMM_STREAM_DEFAULT, 1000, 256, &block)) {
        fprintf(stderr, "%s\n", crmm_last_error()->message);
        return 1;
    }
    crmm_deallocate(cuda, CRMM_STREAM_DEFAULT, block, 999, 256);  /* another size */
    crmm_deallocate(cuda, CRMM_STREAM_DEFAULT, block, 1000, 256); /* right */
    crmm_deallocate(cuda, CRMM_STREAM_DEFAULT, block, 1000, 256); /* twice */

    /* An adaptor around a part of a program tells what that part has kept. */
    if (crmm_limiting_resource_adaptor_create(cuda, SIZE_MAX, NULL, &limited) ||
        crmm_allocate(limited, CRMM_STREAM_DEFAULT, 500, 256, &block)) {
        fprintf(stderr, "%s\n", crmm_last_error()->message);
        crmm_resource_release(&limited);
        return 1;
    }
    crmm_resource_release(&limited); /* with 500 bytes never given back */
    crmm_deallocate(cuda, CRMM_STREAM_DEFAULT, block, 500, 256);

    printf("%d findings\n", findings);
    return findings == 3 ? 0 : 1;
}
