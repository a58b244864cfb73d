/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a buffer on the device and copies it to another one, in the order of one stream. */
#include <crmm/crmm.h>

#include <stdio.h>

int main(void)
{
    const char text[] = "hello, device";
    crmm_stream stream = CRMM_STREAM_DEFAULT;
    crmm_device_buffer first = {0};
    crmm_device_buffer second = {0};

    /* NULL stands for the current device's resource; init_copy_sync waits for its copy. */
    if (crmm_device_buffer_init_copy_sync(&first, text, sizeof(text), stream, NULL) ||
        crmm_device_buffer_init_clone(&second, &first, stream, NULL)) {
        fprintf(stderr, "%s\n", crmm_last_error()->message);
        return 1;
    }
    printf("%zu bytes on device %d, from %s\n", second.size, second.device,
           crmm_resource_name(second.resource));

    crmm_device_buffer_finish(&second);
    crmm_device_buffer_finish(&first);
    return 0;
}
