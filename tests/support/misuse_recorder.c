/* SPDX-License-Identifier: Apache-2.0 */
#include "misuse_recorder.h"

#include <stdio.h>

static misuse_record record;

static void on_misuse(const crmm_misuse *misuse, void *user_data)
{
    misuse_record *into = user_data;

    into->count++;
    into->latest = *misuse;
    (void)snprintf(into->message, sizeof(into->message), "%s", misuse->message);
    (void)snprintf(into->resource_name, sizeof(into->resource_name), "%s",
                   misuse->resource_name != NULL ? misuse->resource_name : "");
    into->latest.message = into->message;
    into->latest.resource_name = into->resource_name;
}

void misuse_recorder_start(void)
{
    record = (misuse_record){0};
    crmm_set_misuse_handler(on_misuse, &record);
}

const misuse_record *misuse_recorded(void)
{
    return &record;
}
