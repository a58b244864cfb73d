/* SPDX-License-Identifier: Apache-2.0 */
/* A vector on every device. Containers know their device: which one is current does not matter. */
#include <crmm/containers/typed.h>
#include <crmm/crmm.h>

#include <stdio.h>

CRMM_DEVICE_UVECTOR_DEFINE(ints, int)

enum { MOST = 8 };

static crmm_status make_on(int device, ints *made)
{
    crmm_cuda_set_device scope = {0};
    crmm_status status = crmm_cuda_set_device_init(&scope, device);
    if (status == CRMM_SUCCESS) {
        /* NULL is the resource of the device that is current now. */
        status = ints_init(made, 1000, CRMM_STREAM_DEFAULT, NULL);
    }
    crmm_cuda_set_device_finish(&scope); /* the caller's device is current again */
    return status;
}

int main(void)
{
    ints numbers[MOST] = {0};
    int count = 0;
    int result = 0;

    crmm_status status = crmm_get_num_cuda_devices(&count);
    for (int device = 0; status == CRMM_SUCCESS && device < count && device < MOST; device++) {
        status = make_on(device, &numbers[device]);
        if (status == CRMM_SUCCESS) {
            /* Written on the vector's own device, whichever is current. */
            status = ints_set_element(&numbers[device], 0, &device, CRMM_STREAM_DEFAULT);
        }
    }
    for (int device = 0; status == CRMM_SUCCESS && device < count && device < MOST; device++) {
        int read = -1;
        status = ints_front_element(&numbers[device], CRMM_STREAM_DEFAULT, &read);
        printf("device %d: %zu elements, the first is %d\n", numbers[device].untyped.buffer.device,
               ints_size(&numbers[device]), read);
        result |= read != device;
    }
    if (status != CRMM_SUCCESS) {
        fprintf(stderr, "%s\n", crmm_last_error()->message);
        result = 1;
    }
    for (int device = 0; device < MOST; device++) {
        ints_finish(&numbers[device]); /* given back on its own device; empty ones do nothing */
    }
    return result;
}
