/* SPDX-License-Identifier: Apache-2.0 */
/* The other half of the behaviour matrix: every resource against every call of CUDA's that fails,
 * in use, while it is made, and when it goes. */
#include <stdio.h>

#include <cudart_emulated.h>

#include <crmm/core/misuse.h>

#include "behaviour_table.h"
#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

enum { MIB = 1 << 20, MOST_ROWS = 64 };

/* ---- in use ---- */

/* All that is called while a resource is used. */
static const struct cuda_call {
    const char *name;
    enum {
        PLAIN,        /* it may fail without harm, or the call fails */
        GIVES_MEMORY, /* without it there is none */
        A_QUESTION    /* of what the device can do; no answer is a no */
    } kind;
} cuda_calls[] = {
    {"cudaMalloc", GIVES_MEMORY},
    {"cudaFree", PLAIN},
    {"cudaMallocManaged", GIVES_MEMORY},
    {"cudaHostAlloc", GIVES_MEMORY},
    {"cudaFreeHost", PLAIN},
    {"cudaHostRegister", GIVES_MEMORY},
    {"cudaHostUnregister", PLAIN},
    {"cudaHostGetDevicePointer", GIVES_MEMORY},
    {"cudaMallocFromPoolAsync", GIVES_MEMORY},
    {"cudaFreeAsync", PLAIN},
    {"cudaMemPoolTrimTo", PLAIN},
    {"cudaMemPoolGetAttribute", PLAIN},
    {"cuMemAddressReserve", GIVES_MEMORY},
    {"cuMemCreate", GIVES_MEMORY},
    {"cuMemMap", GIVES_MEMORY},
    {"cuMemSetAccess", GIVES_MEMORY},
    {"cuMemUnmap", PLAIN},
    {"cuMemRelease", PLAIN},
    {"cuMemAddressFree", PLAIN},
    {"cudaMemGetInfo", PLAIN},
    {"cudaMemAdvise", PLAIN},
    {"cudaMemPrefetchAsync", PLAIN},
    {"cudaDeviceGetAttribute", A_QUESTION},
    {"cudaGetDevice", PLAIN},
    {"cudaSetDevice", PLAIN},
    {"cudaStreamSynchronize", PLAIN},
    {"cudaStreamIsCapturing", PLAIN},
    {"cudaThreadExchangeStreamCaptureMode", PLAIN},
    {"cudaPointerGetAttributes", PLAIN},
    {"cudaDeviceSynchronize", PLAIN},
    {"cuCtxGetCurrent", PLAIN},
    {"cuStreamIsCapturing", PLAIN},
    {"cuStreamGetId", PLAIN},
    {"cuStreamGetCtx", PLAIN},
    {"cuStreamSynchronize", PLAIN},
    {"cuEventRecord", PLAIN},
    {"cuEventQuery", PLAIN},
    {"cudaEventCreateWithFlags", PLAIN},
    {"cudaEventDestroy", PLAIN},
    {"cudaPeekAtLastError", PLAIN},
    {"cudaGetLastError", PLAIN},
};

enum { CALLS = sizeof(cuda_calls) / sizeof(cuda_calls[0]), BYTES = 3 * MIB };

typedef struct outcome {
    crmm_status statuses[2]; /* with a stream, if it takes one; and without */
    int native_codes[2];
    void *ptrs[2];
    size_t findings;
} outcome;

static void use(crmm_resource *mr, cudaStream_t stream, outcome *out)
{
    size_t findings = misuse_recorded()->count;

    *out = (outcome){0};
    out->statuses[0] = take(mr, stream, BYTES, 256, &out->ptrs[0]);
    out->native_codes[0] = crmm_last_error()->native_code;
    out->statuses[1] = crmm_allocate_sync(mr, BYTES, 256, &out->ptrs[1]);
    out->native_codes[1] = crmm_last_error()->native_code;
    give(mr, stream, out->ptrs[0], BYTES, 256);
    size_t with_first = misuse_recorded()->count;
    if (with_first == findings) {
        out->ptrs[0] = NULL; /* it is given back */
    }
    crmm_deallocate_sync(mr, out->ptrs[1], BYTES, 256);
    if (misuse_recorded()->count == with_first) {
        out->ptrs[1] = NULL;
    }
    out->findings = misuse_recorded()->count - findings;
}

static void use_once(const row *of)
{
    char why[TEXT] = "";
    crmm_resource *mr = make_row(of, why);
    outcome out;

    if (mr != NULL) {
        cudaStream_t stream = make_stream();
        use(mr, stream, &out);
        cuda(cudaDeviceSynchronize());
        crmm_resource_release(&mr);
        cuda(cudaStreamDestroy(stream));
    }
}

/* Which calls a resource makes; all of them have a column. */
static void count_calls(const row *of, unsigned long long *counts)
{
    char why[TEXT] = "";
    crmm_resource *mr = make_row(of, why);
    unsigned long long sum = 0;
    outcome out;

    memset(counts, 0, CALLS * sizeof(*counts));
    if (mr == NULL) {
        return;
    }
    cudaStream_t stream = make_stream();
    unsigned long long all = cudart_emulated_calls(NULL);
    for (size_t k = 0; k < CALLS; k++) {
        counts[k] = cudart_emulated_calls(cuda_calls[k].name);
    }
    use(mr, stream, &out);
    all = cudart_emulated_calls(NULL) - all;
    for (size_t k = 0; k < CALLS; k++) {
        counts[k] = cudart_emulated_calls(cuda_calls[k].name) - counts[k];
        sum += counts[k];
    }
    cr_expect(sum == all, "%s: %llu calls have no column", of->name, all - sum);
    crmm_resource_release(&mr);
    cuda(cudaStreamDestroy(stream));
}

static bool is_right(const row *of, const struct cuda_call *failing, crmm_status status,
                     int native_code)
{
    if (status == CRMM_SUCCESS) {
        return failing->kind != GIVES_MEMORY || of->falls_back;
    }
    if (failing->kind == A_QUESTION && status == CRMM_ERROR_UNSUPPORTED) {
        return true;
    }
    return (crmm_status_is_allocation_failure(status) || status == CRMM_ERROR_CUDA) &&
           native_code == cudaErrorIllegalAddress;
}

/* Who takes back what upstream refused. */
static crmm_resource *holder_of(const row *of, crmm_resource *mr)
{
    if (of->keeper != NULL) {
        return of->keeper();
    }
    return of->forgets ? crmm_resource_upstream(mr) : mr;
}

static void let_fail(const row *of, const struct cuda_call *failing, char *text)
{
    char why[TEXT] = "";
    struct cudart_emulated_usage before;
    struct cudart_emulated_usage usage;
    outcome out;

    cudart_emulated_usage(0, &before);
    crmm_resource *mr = make_row(of, why);
    cudaStream_t stream = make_stream();
    cudart_emulated_fail(failing->name, 1, 0, cudaErrorIllegalAddress);
    use(mr, stream, &out);
    cudart_emulated_clear_faults();
    for (int i = 0; i < 2; i++) {
        cr_expect(is_right(of, failing, out.statuses[i], out.native_codes[i]) ||
                      (out.statuses[i] == CRMM_SUCCESS && out.statuses[1 - i] != CRMM_SUCCESS),
                  "%s, %s fails: %s, native code %d", of->name, failing->name,
                  short_name(out.statuses[i]), out.native_codes[i]);
        cr_expect(out.statuses[i] == CRMM_SUCCESS || out.ptrs[i] == NULL);
    }
    bool differ = out.statuses[0] != out.statuses[1];
    (void)snprintf(text, TEXT, "%s%s%s%s", short_name(out.statuses[0]), differ ? " / " : "",
                   differ ? short_name(out.statuses[1]) : "", out.findings > 0 ? ", reported" : "");
    /* What was refused is still there, and can be given back. */
    size_t findings = misuse_recorded()->count;
    crmm_resource *holder = holder_of(of, mr);
    give(holder, stream, out.ptrs[0], BYTES, 256);
    crmm_deallocate_sync(holder, out.ptrs[1], BYTES, 256);
    /* And all is as before. */
    use(mr, stream, &out);
    cr_expect(out.statuses[0] == CRMM_SUCCESS && out.statuses[1] == CRMM_SUCCESS,
              "%s, after %s failed: %s", of->name, failing->name, crmm_last_error()->message);
    cuda(cudaStreamSynchronize(stream));
    crmm_resource_release(&mr);
    cr_expect(misuse_recorded()->count == findings, "%s, after %s failed: %s", of->name,
              failing->name, misuse_recorded()->message);
    cuda(cudaStreamDestroy(stream));
    cudart_emulated_usage(0, &usage);
    cr_expect(usage.allocated == before.allocated, "%s, %s fails: %zu bytes are lost", of->name,
              failing->name, usage.allocated - before.allocated);
    cr_expect(cudart_emulated_violations() == 0, "%s, %s fails: %s", of->name, failing->name,
              cudart_emulated_violation(0));
    cr_expect(cudaGetLastError() == cudaSuccess, "%s, %s fails: an error is pending", of->name,
              failing->name);
}

/* Nothing is left: told as such by all that need more, and once there is some they go on. */
static void let_memory_end(const row *of, char *text)
{
    char why[TEXT] = "";
    outcome out;

    crmm_resource *mr = make_row(of, why);
    if (mr == NULL) {
        (void)snprintf(text, TEXT, "%s", why);
        return;
    }
    cudaStream_t stream = make_stream();
    cr_expect(crmm_resource_trim(mr, 0, NULL) == CRMM_SUCCESS); /* nothing is at hand */
    for (size_t k = 0; k < CALLS; k++) {
        if (cuda_calls[k].kind == GIVES_MEMORY) {
            cudart_emulated_fail(cuda_calls[k].name, 1, 0, cudaErrorMemoryAllocation);
        }
    }
    use(mr, stream, &out);
    cudart_emulated_clear_faults();
    (void)snprintf(text, TEXT, "%s", short_name(out.statuses[0]));
    for (int i = 0; i < 2; i++) {
        bool is_served = out.statuses[i] == CRMM_SUCCESS;
        cr_expect(is_served || (out.statuses[i] == CRMM_ERROR_OUT_OF_MEMORY &&
                                out.native_codes[i] == cudaErrorMemoryAllocation),
                  "%s without memory: %s, native code %d", of->name, short_name(out.statuses[i]),
                  out.native_codes[i]);
        cr_expect(is_served == of->has_its_own, "%s without memory: %s", of->name,
                  short_name(out.statuses[i]));
    }
    size_t findings = out.findings;
    use(mr, stream, &out);
    cr_expect(out.statuses[0] == CRMM_SUCCESS && out.statuses[1] == CRMM_SUCCESS,
              "%s with memory again: %s", of->name, crmm_last_error()->message);
    cr_expect(findings == 0 && out.findings == 0, "%s: %s", of->name, misuse_recorded()->message);
    cr_expect(cudaGetLastError() == cudaSuccess, "%s: an error is pending", of->name);
    crmm_resource_release(&mr);
    cuda(cudaStreamDestroy(stream));
}

/* Calls that nobody makes have no column. */
static void write_cell(bool is_used, const char *text)
{
    if (is_used) {
        table_write(" %s |", text);
    }
}

Test(behaviour_matrix, every_resource_bears_every_failing_call, .timeout = 100)
{
    static unsigned long long counts[MOST_ROWS][CALLS];
    bool used[CALLS] = {false};

    every_resource_set_up();
    table_open("a");
    misuse_recorder_start();
    /* Entry points are looked up once, by the first that needs them. */
    for (size_t i = 0; i < row_count; i++) {
        use_once(&rows[i]);
    }
    for (size_t i = 0; i < row_count; i++) {
        count_calls(&rows[i], counts[i]);
        for (size_t k = 0; k < CALLS; k++) {
            used[k] = used[k] || counts[i][k] > 0;
        }
    }
    table_write("\n| resource, and the call that fails | all of them for lack of memory |");
    for (size_t k = 0; k < CALLS; k++) {
        write_cell(used[k], cuda_calls[k].name);
    }
    table_write("\n| --- | --- |");
    for (size_t k = 0; k < CALLS; k++) {
        write_cell(used[k], "---");
    }
    for (size_t i = 0; i < row_count; i++) {
        char end[TEXT] = "";
        let_memory_end(&rows[i], end);
        table_write("\n| %s | %s |", rows[i].name, end);
        for (size_t k = 0; k < CALLS; k++) {
            char text[TEXT] = "not called";
            if (counts[i][k] > 0) {
                let_fail(&rows[i], &cuda_calls[k], text);
            }
            write_cell(used[k], text);
        }
    }
    table_write("\n");
    table_close();
    cudart_emulated_reset(); /* what could not be released */
}

/* Whether a resource's calls are so many that the one of this number failed. */
typedef bool fail_call(const row *of, unsigned long long position);

/* Each call of every resource fails once; what works without that, works again afterwards. */
static void let_every_call_fail(fail_call *let_fail_at)
{
    every_resource_set_up();
    misuse_recorder_start();
    for (size_t i = 0; i < row_count; i++) {
        use_once(&rows[i]);
        unsigned long long position = 1;
        while (let_fail_at(&rows[i], position)) {
            position++;
        }
        cr_expect(cudart_emulated_violations() == 0, "%s: %s", rows[i].name,
                  cudart_emulated_violation(0));
        use_once(&rows[i]);
    }
    cudart_emulated_reset();
}

/* ---- while it is made ---- */

/* The call of this number fails. Whether there were so many. */
static bool let_making_fail(const row *of, unsigned long long position)
{
    struct cudart_emulated_usage before;
    struct cudart_emulated_usage after;
    char why[TEXT] = "";
    crmm_resource *mr = NULL;
    size_t findings = misuse_recorded()->count;

    cudart_emulated_usage(0, &before);
    unsigned long long calls = cudart_emulated_calls(NULL);
    cudart_emulated_fail(NULL, position, 1, cudaErrorIllegalAddress);
    crmm_status status = every_resource_make(of, &mr, why);
    bool is_reached = cudart_emulated_calls(NULL) - calls >= position;
    cudart_emulated_clear_faults();
    cr_expect(status == CRMM_SUCCESS || (status == crmm_last_error()->status && mr == NULL),
              "%s, call %llu fails: %s, which is not on record", of->name, position,
              short_name(status));
    /* A first block that could not be given back was reported, and is left. */
    bool is_told = misuse_recorded()->count > findings;
    crmm_resource_release(&mr);
    cudart_emulated_usage(0, &after);
    cr_expect(is_told || after.allocated == before.allocated, "%s, call %llu fails: %zu bytes lost",
              of->name, position, after.allocated - before.allocated);
    cr_expect(cudaGetLastError() == cudaSuccess, "%s, call %llu fails: an error is pending",
              of->name, position);
    return is_reached;
}

Test(behaviour_matrix, every_resource_bears_a_failure_while_it_is_made, .timeout = 100)
{
    let_every_call_fail(let_making_fail);
}

/* ---- while it goes ---- */

/* The call of this number fails at the last release. Whether there were so many. What CUDA does not
 * take back is told of. */
static bool let_release_fail(const row *of, unsigned long long position)
{
    struct cudart_emulated_usage before;
    struct cudart_emulated_usage after;
    char why[TEXT] = "";
    outcome out;

    cudart_emulated_usage(0, &before);
    crmm_resource *mr = make_row(of, why);
    if (mr == NULL) {
        return false;
    }
    cudaStream_t stream = make_stream();
    use(mr, stream, &out);
    cuda(cudaDeviceSynchronize()); /* else memory may go later, by itself */
    size_t findings = misuse_recorded()->count;
    unsigned long long calls = cudart_emulated_calls(NULL);
    cudart_emulated_fail(NULL, position, 1, cudaErrorIllegalAddress);
    crmm_resource_release(&mr);
    bool is_reached = cudart_emulated_calls(NULL) - calls >= position;
    cudart_emulated_clear_faults();
    cudart_emulated_usage(0, &after);
    cr_expect(after.physical == before.physical || misuse_recorded()->count > findings,
              "%s, call %llu of its release fails: %zu bytes are lost in silence", of->name,
              position, after.physical - before.physical);
    cr_expect(cudaGetLastError() == cudaSuccess, "%s: an error is pending", of->name);
    cuda(cudaStreamDestroy(stream));
    return is_reached;
}

Test(behaviour_matrix, every_resource_bears_a_failure_while_it_goes, .timeout = 100)
{
    let_every_call_fail(let_release_fail);
}
