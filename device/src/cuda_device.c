/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_device.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>

crmm_status crmm_get_current_cuda_device(int *device)
{
    int found = 0;

    if (device == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_get_current_cuda_device: device is NULL");
    }
    crmm_status status = crmm_priv_cuda_current_device(&found);
    if (status == CRMM_SUCCESS) {
        *device = found;
    }
    return status;
}

crmm_status crmm_get_num_cuda_devices(int *count)
{
    int found = 0;

    if (count == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_get_num_cuda_devices: count is NULL");
    }
    crmm_status status = crmm_priv_cuda_device_count(&found);
    if (status == CRMM_SUCCESS) {
        *count = found;
    }
    return status;
}

crmm_status crmm_available_device_memory(size_t *free_bytes, size_t *total_bytes)
{
    size_t found_free = 0;
    size_t found_total = 0;

    if (free_bytes == NULL || total_bytes == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_available_device_memory: %s is NULL",
                    free_bytes == NULL ? "free_bytes" : "total_bytes");
    }
    crmm_status status = crmm_priv_cuda_memory(&found_free, &found_total);
    if (status == CRMM_SUCCESS) {
        *free_bytes = found_free;
        *total_bytes = found_total;
    }
    return status;
}

crmm_status crmm_percent_of_free_device_memory(int percent, size_t *bytes)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;

    if (bytes == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "crmm_percent_of_free_device_memory: bytes is NULL");
    }
    if (percent < 0 || percent > 100) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "crmm_percent_of_free_device_memory: percent is %d, not within 0 to 100",
                    percent);
    }
    crmm_status status = crmm_priv_cuda_memory(&free_bytes, &total_bytes);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    /* In two parts, so that the product cannot overflow and nothing is rounded twice. */
    size_t share = free_bytes / 100 * (size_t)percent + free_bytes % 100 * (size_t)percent / 100;
    *bytes = crmm_align_down(share, CRMM_DEVICE_ALIGNMENT);
    return CRMM_SUCCESS;
}

static crmm_status check_device(const char *who, int device)
{
    int count = 0;

    crmm_status status = crmm_priv_cuda_device_count(&count);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (device < 0 || device >= count) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: device is %d; there are %d", who, device,
                    count);
    }
    return CRMM_SUCCESS;
}

crmm_status crmm_cuda_set_device_init(crmm_cuda_set_device *scope, int device)
{
    int previous = -1;

    if (scope == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_cuda_set_device_init: scope is NULL");
    }
    if (device >= 0) {
        crmm_status status = check_device("crmm_cuda_set_device_init", device);
        if (status == CRMM_SUCCESS) {
            status = crmm_priv_cuda_enter_device(device, &previous);
        }
        if (status != CRMM_SUCCESS) {
            return status;
        }
    }
    *scope =
        (crmm_cuda_set_device){.previous = previous < 0 ? 0 : previous, .switched = previous >= 0};
    return CRMM_SUCCESS;
}

void crmm_cuda_set_device_finish(crmm_cuda_set_device *scope)
{
    if (scope == NULL || !scope->switched) {
        return;
    }
    crmm_priv_cuda_leave_device(scope->previous);
    *scope = (crmm_cuda_set_device){0};
}
