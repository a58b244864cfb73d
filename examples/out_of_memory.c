/* SPDX-License-Identifier: Apache-2.0 */
/* What a failed allocation tells, and how to go on with less. */
#include <crmm/cleanup.h>
#include <crmm/crmm.h>

#include <stdio.h>

/* As large a work area as there is memory for, down to `least` bytes. */
static crmm_status make_work_area(crmm_device_buffer *area, size_t most, size_t least,
                                  crmm_stream stream, crmm_resource *mr)
{
    size_t bytes = most;
    crmm_status status = crmm_device_buffer_init(area, bytes, stream, mr);
    /* Only what is about memory is worth another try; a failure changes nothing. */
    while (crmm_status_is_allocation_failure(status) && bytes / 2 >= least) {
        const crmm_error *error = crmm_last_error();
        printf("%s: %s\n", crmm_status_name(error->status), error->message);
        bytes /= 2;
        status = crmm_device_buffer_init(area, bytes, stream, mr);
    }
    return status;
}

int main(void)
{
    const size_t mib = (size_t)1 << 20;
    CRMM_AUTO_RESOURCE limited = NULL;
    CRMM_AUTO(crmm_device_buffer) area = {0};
    CRMM_AUTO(crmm_device_buffer) too_much = {0};

    /* A limit of 3 MiB stands for a full device. */
    if (crmm_limiting_resource_adaptor_create(crmm_cuda_memory_resource(), 3 * mib, NULL,
                                              &limited) ||
        make_work_area(&area, 16 * mib, mib, CRMM_STREAM_DEFAULT, limited)) {
        fprintf(stderr, "%s\n", crmm_last_error()->message);
        return 1;
    }
    printf("work area: %zu bytes\n", area.size);

    /* Nothing can ever hold this; it fails at once, and nobody is asked. */
    crmm_status status =
        crmm_device_buffer_init(&too_much, (size_t)-1, CRMM_STREAM_DEFAULT, limited);
    printf("%s: %s\n", crmm_status_name(status), crmm_last_error()->message);
    return area.size == 2 * mib && status == CRMM_ERROR_OUT_OF_MEMORY ? 0 : 1;
}
