/* SPDX-License-Identifier: Apache-2.0 */
#include "log_file_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>

int crmm_priv_log_device(const crmm_resource *upstream, int *device)
{
    *device = crmm_resource_device(upstream);
    return *device >= 0 ? 0 : crmm_priv_cuda_try_current_device(device);
}

static int put_uuid(const crmm_resource *upstream, char *text)
{
    unsigned char uuid[16];
    int device = -1;
    int code = crmm_priv_log_device(upstream, &device);

    if (code == 0) {
        code = crmm_priv_cuda_device_uuid(device, uuid);
    }
    if (code != 0) {
        return code;
    }
    char *end = stpcpy(text, "GPU");
    for (int i = 0; i < 16; i++) {
        if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) {
            *end++ = '-';
        }
        end += sprintf(end, "%02x", uuid[i]);
    }
    return 0;
}

static int put_device(const crmm_resource *upstream, char *text)
{
    int device = -1;
    int code = crmm_priv_log_device(upstream, &device);

    (void)sprintf(text, "%d", device);
    return code;
}

/* What an escape stands for. */
static crmm_status expand(const char *who, const char *name, char escape,
                          const crmm_resource *upstream, char text[CRMM_PRIV_LOG_UUID_TEXT])
{
    int code = 0;

    switch (escape) {
    case 'p':
        (void)sprintf(text, "%ld", (long)getpid());
        break;
    case 'd':
        code = put_device(upstream, text);
        break;
    case 'u':
        code = put_uuid(upstream, text);
        break;
    case '%':
        (void)sprintf(text, "%%");
        break;
    case '\0':
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: the file name %s ends in %%; %%%% stands for it", who, name);
    default:
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: %%%c in the file name %s is none of %%p, %%d, %%u and %%%%", who, escape,
                    name);
    }
    if (code != 0) {
        return FAIL(crmm_priv_cuda_is_forked(code) ? CRMM_ERROR_FORKED : CRMM_ERROR_CUDA, code,
                    "%s: CUDA cannot tell the device for %%%c in the file name %s: %s (%s)", who,
                    escape, name, crmm_priv_cuda_error_name(code), crmm_priv_cuda_error_text(code));
    }
    return CRMM_SUCCESS;
}

crmm_status crmm_priv_log_file_name(const char *who, const char *name,
                                    const crmm_resource *upstream, char **out)
{
    char *expanded = malloc(strlen(name) * CRMM_PRIV_LOG_UUID_TEXT + 1);
    crmm_status status = CRMM_SUCCESS;

    if (expanded == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the file name", who);
    }
    char *end = expanded;
    for (const char *rest = name; status == CRMM_SUCCESS && *rest != '\0'; rest++) {
        if (*rest != '%') {
            *end++ = *rest;
            continue;
        }
        char text[CRMM_PRIV_LOG_UUID_TEXT] = "";
        rest++;
        status = expand(who, name, *rest, upstream, text);
        end = stpcpy(end, text);
    }
    *end = '\0';
    if (status != CRMM_SUCCESS) {
        free(expanded);
        return status;
    }
    *out = expanded;
    return CRMM_SUCCESS;
}
