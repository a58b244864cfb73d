/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/logging_resource_adaptor.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/options.h>
#include <crmm/internal/validate.h>

#include "adaptor.h"
#include "log_file_name.h"
#include "log_writer.h"

static const char class_name[] = "logging_resource_adaptor";

typedef struct logging {
    crmm_priv_adaptor adaptor;
    crmm_priv_log_writer *writer;
} logging;

/* ---- rows ---- */

static uint64_t now(void)
{
    struct timespec time = {0};

    (void)clock_gettime(CLOCK_REALTIME, &time); /* the kernel's page, no system call */
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void add_row(const logging *adaptor, crmm_priv_log_action action, crmm_status status,
                    const void *ptr, size_t bytes, crmm_stream stream)
{
    crmm_priv_log_record record = {
        .time = now(),
        .ptr = (uintptr_t)ptr,
        .bytes = bytes,
        .stream = (uintptr_t)stream,
        .thread = crmm_priv_log_thread(),
        .action = (uint16_t)action,
        .status = (uint16_t)status,
    };
    crmm_priv_log_writer_add(adaptor->writer, &record);
}

/* The row of an allocation that was made or failed; gives its status. */
static crmm_status add_allocation(const logging *adaptor, crmm_status status, void *const *ptr,
                                  size_t bytes, crmm_stream stream)
{
    if (status == CRMM_SUCCESS) {
        add_row(adaptor, CRMM_PRIV_LOG_ALLOCATE, status, *ptr, bytes, stream);
    } else {
        add_row(adaptor, CRMM_PRIV_LOG_ALLOCATE_FAILURE, status, NULL, bytes, stream);
    }
    return status;
}

/* ---- operations ---- */

static crmm_status logging_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                         void **ptr)
{
    const logging *adaptor = (const logging *)resource;
    crmm_status status = crmm_allocate_sync(adaptor->adaptor.upstream, bytes, alignment, ptr);

    return add_allocation(adaptor, status, ptr, bytes, NULL);
}

static crmm_status logging_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                    size_t alignment, void **ptr)
{
    const logging *adaptor = (const logging *)resource;
    crmm_status status = crmm_allocate(adaptor->adaptor.upstream, stream, bytes, alignment, ptr);

    return add_allocation(adaptor, status, ptr, bytes, stream);
}

/* The row comes first: another thread may be given the address at once. */
static void logging_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                    size_t alignment)
{
    const logging *adaptor = (const logging *)resource;

    add_row(adaptor, CRMM_PRIV_LOG_FREE, CRMM_SUCCESS, ptr, bytes, NULL);
    crmm_deallocate_sync(adaptor->adaptor.upstream, ptr, bytes, alignment);
}

static void logging_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                               size_t alignment)
{
    const logging *adaptor = (const logging *)resource;

    add_row(adaptor, CRMM_PRIV_LOG_FREE, CRMM_SUCCESS, ptr, bytes, stream);
    crmm_deallocate(adaptor->adaptor.upstream, stream, ptr, bytes, alignment);
}

static void logging_destroy(crmm_resource *resource)
{
    crmm_priv_log_writer_free(((logging *)resource)->writer);
    crmm_priv_adaptor_destroy(resource);
}

static size_t logging_describe(const crmm_resource *resource, char *text, size_t size)
{
    const logging *adaptor = (const logging *)resource;
    const char *name = adaptor->writer->name;
    int length = name != NULL ? snprintf(text, size, "%s (to %s)", class_name, name)
                              : snprintf(text, size, "%s (to a function)", class_name);
    return crmm_priv_describe_over(adaptor->adaptor.upstream, text, size, (size_t)length);
}

/* A block given back to another one would be missing in this one's log: only identity is equality.
 */
static const crmm_resource_ops logging_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = logging_allocate_sync,
    .deallocate_sync = logging_deallocate_sync,
    .destroy = logging_destroy,
    .allocate = logging_allocate,
    .deallocate = logging_deallocate,
    .upstream = crmm_priv_adaptor_upstream,
    .describe = logging_describe,
};

/* ---- creation ---- */

_Static_assert(sizeof(crmm_logging_resource_adaptor_options) == 6 * sizeof(size_t),
               "options structs have no padding");

void crmm_logging_resource_adaptor_options_init(crmm_logging_resource_adaptor_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

/* The value of a variable that is set to more than nothing. */
static const char *from_environment(const char *variable)
{
    const char *value = crmm_priv_environment(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static const char *default_name(void)
{
    const char *name = from_environment("CRMM_LOG_FILE");
    return name != NULL ? name : from_environment("RMM_LOG_FILE");
}

/* The file of a log, as the options or the environment name it; NULL where it has a function. */
static crmm_status choose_name(const crmm_logging_resource_adaptor_options *options,
                               const crmm_resource *upstream, char **out)
{
    *out = NULL;
    if (options->write != NULL) {
        return options->file_name == NULL
                   ? CRMM_SUCCESS
                   : FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                          "%s: options->file_name and options->write are both set", class_name);
    }
    const char *name = options->file_name != NULL ? options->file_name : default_name();
    if (name == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->file_name is NULL, and neither CRMM_LOG_FILE nor RMM_LOG_FILE is "
                    "set",
                    class_name);
    }
    return crmm_priv_log_file_name(class_name, name, upstream, out);
}

/* What is not known stays 0: a log of host memory may be made where there is no device at all. */
static crmm_priv_log_origin origin_of(const crmm_resource *upstream, bool with_device)
{
    crmm_priv_log_origin origin = {
        .process = (uint32_t)getpid(),
        .device = -1,
        .time = now(),
    };
    int device = -1;

    if (with_device && crmm_resource_has(upstream, CRMM_DEVICE_ACCESSIBLE) &&
        crmm_priv_log_device(upstream, &device) == 0) {
        origin.device = device;
        (void)crmm_priv_cuda_device_uuid(device, origin.uuid);
    }
    return origin;
}

static crmm_status create_writer(const crmm_logging_resource_adaptor_options *options,
                                 const crmm_resource *upstream, crmm_priv_log_writer **out)
{
    crmm_priv_log_setup setup = {
        .write = options->write,
        .user_data = options->user_data,
        .auto_flush = options->auto_flush,
        .binary = options->binary != 0,
        .origin = origin_of(upstream, options->binary != 0),
    };
    crmm_status status = choose_name(options, upstream, &setup.name);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = crmm_priv_log_writer_create(class_name, &setup, out);
    if (status != CRMM_SUCCESS) {
        free(setup.name);
    }
    return status;
}

crmm_status crmm_logging_resource_adaptor_create(
    crmm_resource *upstream, const crmm_logging_resource_adaptor_options *options,
    crmm_resource **out)
{
    crmm_logging_resource_adaptor_options known;
    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (known.binary > 1) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: options->binary is %zu, not 0 or 1",
                    class_name, known.binary);
    }
    logging *created = crmm_priv_adaptor_create(class_name, &logging_ops, sizeof(*created),
                                                upstream, out, &status);
    if (created == NULL) {
        return status;
    }
    status = create_writer(&known, upstream, &created->writer);
    if (status != CRMM_SUCCESS) {
        crmm_priv_adaptor_destroy(&created->adaptor.base);
        return status;
    }
    *out = &created->adaptor.base;
    return CRMM_SUCCESS;
}

crmm_status crmm_logging_resource_adaptor_flush(crmm_resource *adaptor)
{
    crmm_status status =
        crmm_priv_require_class("crmm_logging_resource_adaptor_flush", adaptor, &logging_ops);
    return status != CRMM_SUCCESS
               ? status
               : crmm_priv_log_writer_flush(class_name, ((logging *)adaptor)->writer);
}
