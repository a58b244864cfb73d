/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/status.h>

#include <stddef.h>

static const struct {
    const char *name;
    const char *text;
} statuses[] = {
    [CRMM_SUCCESS] = {"CRMM_SUCCESS", "success"},
    [CRMM_ERROR_INVALID_ARGUMENT] = {"CRMM_ERROR_INVALID_ARGUMENT", "invalid argument"},
    [CRMM_ERROR_LOGIC] = {"CRMM_ERROR_LOGIC", "violated precondition"},
    [CRMM_ERROR_OUT_OF_RANGE] = {"CRMM_ERROR_OUT_OF_RANGE", "index out of range"},
    [CRMM_ERROR_BAD_ALLOC] = {"CRMM_ERROR_BAD_ALLOC", "allocation failed"},
    [CRMM_ERROR_OUT_OF_MEMORY] = {"CRMM_ERROR_OUT_OF_MEMORY", "out of memory"},
    [CRMM_ERROR_LIMIT_EXCEEDED] = {"CRMM_ERROR_LIMIT_EXCEEDED", "allocation limit exceeded"},
    [CRMM_ERROR_PROPERTY] = {"CRMM_ERROR_PROPERTY", "resource lacks a required property"},
    [CRMM_ERROR_UNSUPPORTED] = {"CRMM_ERROR_UNSUPPORTED", "not supported"},
    [CRMM_ERROR_CUDA] = {"CRMM_ERROR_CUDA", "CUDA call failed"},
    [CRMM_ERROR_FORKED] = {"CRMM_ERROR_FORKED", "CUDA used in a forked child"},
    [CRMM_ERROR_IO] = {"CRMM_ERROR_IO", "input or output failed"},
};

static bool is_known(crmm_status status)
{
    return (size_t)status < sizeof(statuses) / sizeof(statuses[0]);
}

const char *crmm_status_name(crmm_status status)
{
    return is_known(status) ? statuses[status].name : "CRMM_ERROR_UNKNOWN";
}

const char *crmm_status_string(crmm_status status)
{
    return is_known(status) ? statuses[status].text : "unknown status";
}

bool crmm_status_is_allocation_failure(crmm_status status)
{
    return status == CRMM_ERROR_BAD_ALLOC || status == CRMM_ERROR_OUT_OF_MEMORY ||
           status == CRMM_ERROR_LIMIT_EXCEEDED;
}
