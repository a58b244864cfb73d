/* SPDX-License-Identifier: Apache-2.0 */
/* Gives one part of a program at most 1 MiB, whatever it asks for. */
#include <crmm/crmm.h>

#include <stdio.h>

int main(void)
{
    const size_t limit = (size_t)1 << 20;
    crmm_resource *limited = NULL;
    if (crmm_limiting_resource_adaptor_create(crmm_cuda_memory_resource(), limit, NULL, &limited)) {
        fprintf(stderr, "%s\n", crmm_last_error()->message);
        return 1;
    }

    /* From here on everything that names no resource uses this one, on this device. The table
     * retains it, so our own reference can go. */
    crmm_status status = crmm_set_current_device_resource(limited, NULL);
    crmm_device_buffer buffer = {0};
    if (status == CRMM_SUCCESS) {
        status = crmm_device_buffer_init(&buffer, limit, CRMM_STREAM_DEFAULT, NULL);
    }
    if (status != CRMM_SUCCESS) {
        fprintf(stderr, "%s\n", crmm_last_error()->message);
        crmm_resource_release(&limited);
        return 1;
    }
    printf("%zu of %zu bytes in use\n", crmm_limiting_resource_adaptor_allocated_bytes(limited),
           crmm_limiting_resource_adaptor_allocation_limit(limited));

    /* A failure changes nothing, and says why. */
    crmm_device_buffer refused = {0};
    status = crmm_device_buffer_init(&refused, 1, CRMM_STREAM_DEFAULT, NULL);
    printf("%s: %s\n", crmm_status_name(status), crmm_last_error()->message);

    crmm_device_buffer_finish(&buffer);
    int result = status == CRMM_ERROR_LIMIT_EXCEEDED ? 0 : 1;
    if (crmm_reset_current_device_resource(NULL) != CRMM_SUCCESS) {
        result = 1;
    }
    crmm_resource_release(&limited);
    return result;
}
