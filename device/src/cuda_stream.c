/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_stream.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/report.h>

static const char class_name[] = "cuda_stream";

static void report(crmm_misuse_kind kind, int code, const char *call, const char *what)
{
    crmm_priv_report((crmm_misuse){.kind = kind, .native_code = code, .resource_name = class_name},
                     "%s: %s", call, what);
}

crmm_status crmm_cuda_stream_init(crmm_cuda_stream *stream, uint64_t flags)
{
    crmm_stream created = NULL;

    if (stream == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_cuda_stream_init: stream is NULL");
    }
    if (flags > CRMM_CUDA_STREAM_NON_BLOCKING) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_cuda_stream_init: flags is %llu",
                    (unsigned long long)flags);
    }
    crmm_status status =
        crmm_priv_cuda_stream_create(flags == CRMM_CUDA_STREAM_NON_BLOCKING, &created);
    if (status == CRMM_SUCCESS) {
        stream->stream = created;
    }
    return status;
}

void crmm_cuda_stream_finish(crmm_cuda_stream *stream)
{
    if (stream == NULL || stream->stream == NULL) {
        return;
    }
    int code = crmm_priv_cuda_stream_destroy(stream->stream);
    stream->stream = NULL;
    if (code != 0) {
        report(crmm_priv_cuda_is_forked(code) ? CRMM_MISUSE_FORKED : CRMM_MISUSE_CUDA, code,
               "crmm_cuda_stream_finish", crmm_priv_cuda_error_name(code));
    }
}

void crmm_cuda_stream_move(crmm_cuda_stream *destination, crmm_cuda_stream *source)
{
    if (destination == NULL || source == NULL) {
        report(CRMM_MISUSE_INVALID_ARGUMENT, 0, "crmm_cuda_stream_move",
               destination == NULL ? "destination is NULL" : "source is NULL");
        return;
    }
    if (destination == source) {
        return;
    }
    crmm_cuda_stream_finish(destination);
    *destination = *source;
    source->stream = NULL;
}

bool crmm_cuda_stream_is_valid(const crmm_cuda_stream *stream)
{
    return stream != NULL && stream->stream != NULL;
}

crmm_stream crmm_cuda_stream_value(const crmm_cuda_stream *stream)
{
    if (crmm_cuda_stream_is_valid(stream)) {
        return stream->stream;
    }
    report(CRMM_MISUSE_INVALID_ARGUMENT, 0, "crmm_cuda_stream_value",
           stream == NULL ? "stream is NULL" : "the stream is empty");
    return NULL;
}

crmm_status crmm_cuda_stream_synchronize(const crmm_cuda_stream *stream)
{
    if (!crmm_cuda_stream_is_valid(stream)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_cuda_stream_synchronize: stream is %s",
                    stream == NULL ? "NULL" : "empty");
    }
    return crmm_priv_cuda_stream_synchronize(stream->stream);
}

bool crmm_stream_is_default(crmm_stream stream)
{
    return stream == NULL || stream == CRMM_STREAM_LEGACY;
}

bool crmm_stream_is_per_thread_default(crmm_stream stream)
{
    return stream == CRMM_STREAM_PER_THREAD;
}

crmm_status crmm_stream_synchronize(crmm_stream stream)
{
    return crmm_priv_cuda_stream_synchronize(stream);
}
