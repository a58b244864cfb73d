/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/status.h>

#include <string.h>

int main(void)
{
    return strcmp(crmm_status_name(CRMM_SUCCESS), "CRMM_SUCCESS");
}
