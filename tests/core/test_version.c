/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/version.h>

#include <stdio.h>

#include "expect.h"

Test(version, headers_and_library_agree)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%d.%d.%d", CRMM_VERSION_MAJOR, CRMM_VERSION_MINOR,
                   CRMM_VERSION_PATCH);
    expect_text(crmm_version(), text);
}

Test(version, names_the_cuda_runtime)
{
    const char *name = crmm_cuda_runtime_name();

    cr_assert(strcmp(name, "emulated") == 0 || strncmp(name, "toolkit 1", 9) == 0, "it is \"%s\"",
              name);
}
