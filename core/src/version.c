/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/version.h>

const char *crmm_version(void)
{
    return CRMM_PRIV_VERSION;
}

const char *crmm_cuda_runtime_name(void)
{
    return CRMM_PRIV_CUDA_RUNTIME;
}
