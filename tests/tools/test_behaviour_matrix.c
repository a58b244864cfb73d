/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every resource of the build against every case that all of them must answer, and on the emulation
 * against every call of CUDA's that fails. The rows are the classes of crmm-replay and the few that
 * it has not; a class without a row fails. With CRMM_BEHAVIOUR_MATRIX=FILE in the environment the
 * answers are written there as tables: an allocation's status, "reported" if a deallocation ended
 * in a finding, and two statuses where the calls with a stream and without differ.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/core/alignment.h>
#include <crmm/core/misuse.h>
#include <crmm/device/callback_memory_resource.h>
#include <crmm/device/cuda_async_view_memory_resource.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/sam_headroom_memory_resource.h>
#include <crmm/device/system_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "spec.h"

#ifdef CUDART_EMULATED
#include <cudart_emulated.h>
#endif

enum { KIB = 1024, MIB = 1 << 20, TEXT = 48 };

#define ANY_ALIGNMENT (64 * (size_t)KIB) /* the largest that is asked for */

/* ---- rows ---- */

static crmm_status create_system(crmm_resource **out)
{
    *out = crmm_system_memory_resource();
    return CRMM_SUCCESS;
}

static crmm_status create_sam_headroom(crmm_resource **out)
{
    return crmm_sam_headroom_memory_resource_create(MIB, out);
}

static crmm_status create_view(crmm_resource **out)
{
    cudaMemPool_t pool = NULL;

    if (cudaDeviceGetDefaultMemPool(&pool, 0) != cudaSuccess) {
        return crmm_set_last_error(CRMM_ERROR_UNSUPPORTED, 0, "no default pool");
    }
    return crmm_cuda_async_view_memory_resource_create((crmm_mem_pool)pool, out);
}

static crmm_status call_allocate(crmm_stream stream, size_t bytes, size_t alignment, void **ptr,
                                 void *user_data)
{
    return crmm_allocate(user_data, stream, bytes, alignment, ptr);
}

static void call_deallocate(crmm_stream stream, void *ptr, size_t bytes, size_t alignment,
                            void *user_data)
{
    crmm_deallocate(user_data, stream, ptr, bytes, alignment);
}

static crmm_status create_callback(crmm_resource **out)
{
    static const crmm_callbacks callbacks = {
        .struct_size = sizeof(callbacks),
        .properties = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED,
        .allocate = call_allocate,
        .deallocate = call_deallocate,
    };
    return crmm_callback_memory_resource_create(&callbacks, crmm_cuda_memory_resource(), out);
}

typedef struct row {
    const char *name; /* what stands in the table; begins with the class */
    const char *spec; /* for crmm-replay; NULL: `create` */
    crmm_status (*create)(crmm_resource **out);
    size_t most_alignment;
    crmm_status too_much; /* what 1 PiB is answered with; 0: out of memory */
    bool forgets; /* its books drop a block before upstream has it, which may refuse it: then the
                     block is upstream's */
} row;

/* The preallocation of the kin of pools is left out, so that CUDA is called where it can fail. */
#define NO_BLOCKS "blocks_to_preallocate=18446744073709551615"

static const row rows[] = {
    {.name = "cuda", .spec = "cuda", .most_alignment = 256},
    {.name = "managed", .spec = "managed", .most_alignment = 256},
    {.name = "malloc", .spec = "malloc", .most_alignment = ANY_ALIGNMENT},
    {.name = "pinned_host", .spec = "pinned_host", .most_alignment = 256},
    {.name = "pinned_host, created", .spec = "pinned_host:touch_threads=1", .most_alignment = 256},
    {.name = "system", .create = create_system, .most_alignment = ANY_ALIGNMENT},
    {.name = "sam_headroom", .create = create_sam_headroom, .most_alignment = ANY_ALIGNMENT},
    {.name = "callback", .create = create_callback, .most_alignment = 256},
    {.name = "cuda_async", .spec = "cuda_async", .most_alignment = 256},
    {.name = "cuda_async_view", .create = create_view, .most_alignment = 256},
    {.name = "cuda_async_managed", .spec = "cuda_async_managed", .most_alignment = 256},
    {.name = "vmm", .spec = "vmm", .most_alignment = ANY_ALIGNMENT},
    {.name = "pool", .spec = "pool", .most_alignment = ANY_ALIGNMENT},
    {.name = "pool over cuda", .spec = "pool+cuda", .most_alignment = ANY_ALIGNMENT},
    {.name = "pool over malloc", .spec = "pool+malloc", .most_alignment = ANY_ALIGNMENT},
    {.name = "fixed_size", .spec = "fixed_size:block_size=4MiB," NO_BLOCKS, .most_alignment = 256},
    {.name = "binning",
     .spec = "binning:min_size_exponent=8,max_size_exponent=20," NO_BLOCKS,
     .most_alignment = 256,
     .forgets = true},
    {.name = "arena", .spec = "arena:arena_size=64MiB", .most_alignment = ANY_ALIGNMENT},
    {.name = "aligned", .spec = "aligned", .most_alignment = ANY_ALIGNMENT},
    {.name = "failure_callback", .spec = "failure_callback:attempts=1", .most_alignment = 256},
    {.name = "fault_injection", .spec = "fault_injection", .most_alignment = 256},
    {.name = "limiting",
     .spec = "limiting:allocation_limit=1GiB",
     .most_alignment = 256,
     .too_much = CRMM_ERROR_LIMIT_EXCEEDED,
     .forgets = true},
    {.name = "prefetch over managed", .spec = "prefetch+managed", .most_alignment = 256},
    {.name = "thread_safe", .spec = "thread_safe", .most_alignment = 256},
    {.name = "statistics", .spec = "statistics", .most_alignment = 256},
    {.name = "tracking", .spec = "tracking", .most_alignment = 256, .forgets = true},
    {.name = "logging", .spec = "logging:file_name=/dev/null", .most_alignment = 256},
    {.name = "nvtx", .spec = "nvtx:on=1", .most_alignment = 256},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* NULL: the device has not what it needs, or the build not the class, which is in `why`. */
static crmm_resource *make(const row *of, char *why)
{
    crmm_resource *mr = NULL;
    crmm_status status = CRMM_SUCCESS;

    if (of->spec != NULL) {
        spec parsed;
        problem unknown;
        if (!spec_parse(of->spec, &parsed, &unknown)) {
            (void)snprintf(why, TEXT, "not in this build");
            return NULL;
        }
        status = spec_create(&parsed, &mr);
    } else {
        status = of->create(&mr);
    }
    /* The shared objects say at an allocation what the device lacks. */
    void *ptr = NULL;
    if (status == CRMM_SUCCESS && crmm_allocate_sync(mr, 1, 1, &ptr) == CRMM_ERROR_UNSUPPORTED) {
        status = CRMM_ERROR_UNSUPPORTED;
    }
    crmm_deallocate_sync(mr, ptr, 1, 1);
    cr_assert(status == CRMM_SUCCESS || status == CRMM_ERROR_UNSUPPORTED, "%s: %s", of->name,
              crmm_last_error()->message);
    if (status != CRMM_SUCCESS) {
        crmm_resource_release(&mr);
        (void)snprintf(why, TEXT, "not on this device");
    }
    return mr;
}

static bool is_row_of(const row *of, const char *class_name)
{
    size_t length = strlen(class_name);
    return strncmp(of->name, class_name, length) == 0 &&
           (of->name[length] == '\0' || strchr(" ,", of->name[length]) != NULL);
}

Test(behaviour_matrix, every_class_has_a_row)
{
    for (size_t i = 0; i < class_count; i++) {
        bool found = false;
        for (size_t k = 0; k < ROWS; k++) {
            found = found || is_row_of(&rows[k], classes[i].name);
        }
        cr_expect(found, "%s has no row", classes[i].name);
    }
}

/* ---- the table ---- */

static FILE *table; /* NULL: nobody wants it */

static void write_table(const char *format, ...)
{
    va_list arguments;

    if (table != NULL) {
        va_start(arguments, format);
        (void)vfprintf(table, format, arguments);
        va_end(arguments);
    }
}

static void open_table(const char *mode)
{
    const char *path = getenv("CRMM_BEHAVIOUR_MATRIX");

    if (path != NULL) {
        table = fopen(path, mode);
        cr_assert(table != NULL, "%s cannot be opened", path);
    }
}

static void close_table(void)
{
    if (table != NULL) {
        (void)fclose(table);
    }
}

static const char *short_name(crmm_status status)
{
    return status == CRMM_SUCCESS ? "success" : crmm_status_name(status) + strlen("CRMM_ERROR_");
}

/* ---- cases ---- */

typedef struct answer {
    bool right;
    char text[TEXT]; /* what stands in the table */
} answer;

static bool is_stream_ordered(const crmm_resource *mr)
{
    return crmm_resource_has(mr, CRMM_STREAM_ORDERED);
}

/* By the call that the resource has, with a stream if it takes one. */
static crmm_status take(crmm_resource *mr, crmm_stream stream, size_t bytes, size_t alignment,
                        void **ptr)
{
    return is_stream_ordered(mr) ? crmm_allocate(mr, stream, bytes, alignment, ptr)
                                 : crmm_allocate_sync(mr, bytes, alignment, ptr);
}

static void give(crmm_resource *mr, crmm_stream stream, void *ptr, size_t bytes, size_t alignment)
{
    if (is_stream_ordered(mr)) {
        crmm_deallocate(mr, stream, ptr, bytes, alignment);
    } else {
        crmm_deallocate_sync(mr, ptr, bytes, alignment);
    }
}

static void say(answer *out, crmm_status got, crmm_status expected)
{
    out->right =
        out->right && got == expected && (got == CRMM_SUCCESS || crmm_last_error()->status == got);
    (void)snprintf(out->text, sizeof(out->text), "%s", short_name(got));
}

/* Both calls fail, and leave the pointer alone. */
static void ask_in_vain(const row *of, crmm_resource *mr, size_t bytes, size_t alignment,
                        crmm_status expected, answer *out)
{
    void *ptr = out;

    (void)of;
    say(out, crmm_allocate_sync(mr, bytes, alignment, &ptr), expected);
    say(out, take(mr, NULL, bytes, alignment, &ptr), expected);
    out->right = out->right && ptr == out;
}

/* Both calls give memory that can be used, and take it back. */
static void ask(crmm_resource *mr, size_t bytes, size_t alignment, answer *out)
{
    void *a = NULL;
    void *b = NULL;

    say(out, crmm_allocate_sync(mr, bytes, alignment, &a), CRMM_SUCCESS);
    say(out, take(mr, NULL, bytes, alignment, &b), CRMM_SUCCESS);
    out->right = out->right && a != b && crmm_is_pointer_aligned(a, alignment) &&
                 crmm_is_pointer_aligned(b, alignment);
    if (out->right && crmm_resource_has(mr, CRMM_DEVICE_ACCESSIBLE)) {
        device_fill(a, 1, bytes);
        device_fill(b, 2, bytes);
        out->right = device_has(a, 1, bytes) && device_has(b, 2, bytes);
    } else if (out->right) {
        memset(a, 1, bytes);
        memset(b, 2, bytes);
        out->right = ((char *)a)[bytes - 1] == 1 && ((char *)b)[0] == 2;
    }
    crmm_deallocate_sync(mr, a, bytes, alignment);
    give(mr, NULL, b, bytes, alignment);
}

static void zero_bytes(const row *of, crmm_resource *mr, answer *out)
{
    void *a = out;
    void *b = out;

    (void)of;
    say(out, crmm_allocate_sync(mr, 0, 256, &a), CRMM_SUCCESS);
    say(out, take(mr, NULL, 0, 256, &b), CRMM_SUCCESS);
    out->right = out->right && a == NULL && b == NULL;
    (void)snprintf(out->text, sizeof(out->text), "NULL");
}

static void one_byte(const row *of, crmm_resource *mr, answer *out)
{
    (void)of;
    ask(mr, 1, 256, out);
}

static void bytes_255(const row *of, crmm_resource *mr, answer *out)
{
    (void)of;
    ask(mr, 255, 256, out);
}

static void bytes_256(const row *of, crmm_resource *mr, answer *out)
{
    (void)of;
    ask(mr, 256, 256, out);
}

static void bytes_257(const row *of, crmm_resource *mr, answer *out)
{
    (void)of;
    ask(mr, 257, 256, out);
}

static void more_than_2_mib(const row *of, crmm_resource *mr, answer *out)
{
    (void)of;
    ask(mr, 2 * MIB + 1, 256, out);
}

static void near_size_max(const row *of, crmm_resource *mr, answer *out)
{
    static const size_t less[] = {0, 1, 255, 256, 257, 4096, 2 * MIB, SIZE_MAX / 2 - 1};

    for (size_t i = 0; i < sizeof(less) / sizeof(less[0]); i++) {
        ask_in_vain(of, mr, SIZE_MAX - less[i], 256, CRMM_ERROR_OUT_OF_MEMORY, out);
    }
}

/* The largest numbers that the resource itself has to look at. */
static void near_ptrdiff_max(const row *of, crmm_resource *mr, answer *out)
{
    static const size_t less[] = {0, 1, 255, 256, 257, 4096, 2 * MIB};
    crmm_status expected = of->too_much != CRMM_SUCCESS ? of->too_much : CRMM_ERROR_OUT_OF_MEMORY;

    for (size_t i = 0; i < sizeof(less) / sizeof(less[0]); i++) {
        void *ptr = out;
        crmm_status status = take(mr, NULL, PTRDIFF_MAX - less[i], 256, &ptr);
        /* Where rounding up does not fit, a limit is not asked any more. */
        say(out, status, status == CRMM_ERROR_OUT_OF_MEMORY ? status : expected);
        out->right = out->right && ptr == out;
    }
}

static void alignment_0(const row *of, crmm_resource *mr, answer *out)
{
    ask_in_vain(of, mr, 0, 0, CRMM_ERROR_INVALID_ARGUMENT, out);
    ask_in_vain(of, mr, 1, 0, CRMM_ERROR_INVALID_ARGUMENT, out);
}

static void alignment_3(const row *of, crmm_resource *mr, answer *out)
{
    ask_in_vain(of, mr, 0, 3, CRMM_ERROR_INVALID_ARGUMENT, out);
    ask_in_vain(of, mr, 1, 3, CRMM_ERROR_INVALID_ARGUMENT, out);
}

static void alignment_to_256(const row *of, crmm_resource *mr, answer *out)
{
    (void)of;
    for (size_t alignment = 1; alignment <= 256; alignment *= 2) {
        ask(mr, 1000, alignment, out);
    }
}

static void alignment_to_64_kib(const row *of, crmm_resource *mr, answer *out)
{
    for (size_t alignment = 512; alignment <= ANY_ALIGNMENT; alignment *= 2) {
        if (alignment <= of->most_alignment) {
            ask(mr, 1000, alignment, out);
        } else {
            ask_in_vain(of, mr, 1000, alignment, CRMM_ERROR_UNSUPPORTED, out);
        }
    }
}

static void null_out(const row *of, crmm_resource *mr, answer *out)
{
    (void)of;
    say(out, crmm_allocate_sync(mr, 1, 1, NULL), CRMM_ERROR_INVALID_ARGUMENT);
    say(out, crmm_allocate(mr, NULL, 1, 1, NULL), CRMM_ERROR_INVALID_ARGUMENT);
}

/* Findings are looked at after each case. */
static void null_free(const row *of, crmm_resource *mr, answer *out)
{
    (void)of;
    crmm_deallocate_sync(mr, NULL, 1, 1);
    crmm_deallocate(mr, NULL, NULL, 1, 1);
    crmm_deallocate_ptr(mr, NULL, NULL);
    (void)snprintf(out->text, sizeof(out->text), "nothing");
}

static void with_a_stream(const row *of, crmm_resource *mr, answer *out)
{
    cudaStream_t stream = make_stream();
    void *ptr = NULL;

    (void)of;
    say(out, crmm_allocate(mr, stream, 1000, 256, &ptr),
        is_stream_ordered(mr) ? CRMM_SUCCESS : CRMM_ERROR_PROPERTY);
    give(mr, stream, ptr, 1000, 256);
    cuda(cudaStreamSynchronize(stream));
    cuda(cudaStreamDestroy(stream));
}

/* The caller's device stays current, and memory is that of the resource's device. */
static void other_device(const row *of, crmm_resource *mr, answer *out)
{
    int devices = 0;
    int current = -1;
    void *ptr = NULL;

    (void)of;
    cuda(cudaGetDeviceCount(&devices));
    if (devices < 2) {
        (void)snprintf(out->text, sizeof(out->text), "not run: one device");
        return;
    }
    cuda(cudaSetDevice(1));
    say(out, take(mr, NULL, 1000, 256, &ptr), CRMM_SUCCESS);
    cuda(cudaGetDevice(&current));
    out->right = out->right && current == 1;
    if (ptr != NULL && crmm_resource_has(mr, CRMM_DEVICE_ACCESSIBLE) &&
        !crmm_resource_has(mr, CRMM_HOST_ACCESSIBLE)) {
        struct cudaPointerAttributes attributes;
        int own = crmm_resource_device(mr);
        cuda(cudaPointerGetAttributes(&attributes, ptr));
        out->right = out->right && (own < 0 || attributes.device == own);
    }
    give(mr, NULL, ptr, 1000, 256);
    cuda(cudaGetDevice(&current));
    out->right = out->right && current == 1;
    cuda(cudaSetDevice(0));
}

static void out_of_memory(const row *of, crmm_resource *mr, answer *out)
{
    crmm_status expected = of->too_much != CRMM_SUCCESS ? of->too_much : CRMM_ERROR_OUT_OF_MEMORY;

    ask_in_vain(of, mr, (size_t)1 << 50, 256, expected, out);
}

static const struct column {
    const char *name;
    void (*ask)(const row *of, crmm_resource *mr, answer *out);
} columns[] = {
    {"0 bytes", zero_bytes},
    {"1", one_byte},
    {"255", bytes_255},
    {"256", bytes_256},
    {"257", bytes_257},
    {"2 MiB + 1", more_than_2_mib},
    {"SIZE_MAX - k", near_size_max},
    {"PTRDIFF_MAX - k", near_ptrdiff_max},
    {"alignment 0", alignment_0},
    {"alignment 3", alignment_3},
    {"alignment 1 to 256", alignment_to_256},
    {"alignment 512 to 64 KiB", alignment_to_64_kib},
    {"NULL output", null_out},
    {"NULL given back", null_free},
    {"with a stream", with_a_stream},
    {"another device current", other_device},
    {"1 PiB", out_of_memory},
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

/* What the emulation can do, so that no cell is left out. */
static void set_up_device(void)
{
#ifdef CUDART_EMULATED
    cr_assert(cudart_emulated_set_devices(2) == 0);
    cudart_emulated_set_attribute(-1, cudaDevAttrPageableMemoryAccess, 1);
#endif
}

Test(behaviour_matrix, every_resource_answers_every_case, .timeout = 100)
{
    set_up_device();
    need_devices(1);
    open_table("w");
    misuse_recorder_start();
    write_table("| resource |");
    for (size_t k = 0; k < COLUMNS; k++) {
        write_table(" %s |", columns[k].name);
    }
    write_table("\n| --- |");
    for (size_t k = 0; k < COLUMNS; k++) {
        write_table(" --- |");
    }
    for (size_t i = 0; i < ROWS; i++) {
        char why[TEXT] = "";
        crmm_resource *mr = make(&rows[i], why);

        write_table("\n| %s |", rows[i].name);
        for (size_t k = 0; k < COLUMNS; k++) {
            answer out = {.right = true};
            size_t findings = misuse_recorded()->count;
            if (mr == NULL) {
                (void)snprintf(out.text, sizeof(out.text), "%s", why);
            } else {
                columns[k].ask(&rows[i], mr, &out);
            }
            cr_expect(out.right && out.text[0] != '\0', "%s, %s: %s (%s)", rows[i].name,
                      columns[k].name, out.text, crmm_last_error()->message);
            cr_expect(misuse_recorded()->count == findings, "%s, %s: %s", rows[i].name,
                      columns[k].name, misuse_recorded()->message);
            cr_expect(cudaGetLastError() == cudaSuccess, "%s, %s: an error is pending",
                      rows[i].name, columns[k].name);
            write_table(" %s |", out.text);
        }
        crmm_resource_release(&mr);
        cr_expect(misuse_recorded()->count == 0, "%s: %s", rows[i].name,
                  misuse_recorded()->message);
    }
    write_table("\n");
    close_table();
}

/* ---- calls that fail ---- */

#ifdef CUDART_EMULATED

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
    crmm_resource *mr = make(of, why);
    outcome out;

    if (mr != NULL) {
        cudaStream_t stream = make_stream();
        use(mr, stream, &out);
        crmm_resource_release(&mr);
        cuda(cudaStreamDestroy(stream));
    }
}

/* Which calls a resource makes; all of them have a column. */
static void count_calls(const row *of, unsigned long long *counts)
{
    char why[TEXT] = "";
    crmm_resource *mr = make(of, why);
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

static bool is_right(const struct cuda_call *failing, crmm_status status, int native_code)
{
    if (status == CRMM_SUCCESS) {
        return failing->kind != GIVES_MEMORY;
    }
    if (failing->kind == A_QUESTION && status == CRMM_ERROR_UNSUPPORTED) {
        return true;
    }
    return (crmm_status_is_allocation_failure(status) || status == CRMM_ERROR_CUDA) &&
           native_code == cudaErrorIllegalAddress;
}

static void let_fail(const row *of, const struct cuda_call *failing, char *text)
{
    char why[TEXT] = "";
    struct cudart_emulated_usage before;
    struct cudart_emulated_usage usage;
    outcome out;

    cudart_emulated_usage(0, &before);
    crmm_resource *mr = make(of, why);
    cudaStream_t stream = make_stream();
    cudart_emulated_fail(failing->name, 1, 0, cudaErrorIllegalAddress);
    use(mr, stream, &out);
    cudart_emulated_clear_faults();
    for (int i = 0; i < 2; i++) {
        cr_expect(is_right(failing, out.statuses[i], out.native_codes[i]) ||
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
    crmm_resource *holder = of->forgets ? crmm_resource_upstream(mr) : mr;
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

Test(behaviour_matrix, every_resource_bears_every_failing_call, .timeout = 100)
{
    static unsigned long long counts[ROWS][CALLS];
    bool used[CALLS] = {false};

    set_up_device();
    open_table("a");
    misuse_recorder_start();
    /* Entry points are looked up once, by the first that needs them. */
    for (size_t i = 0; i < ROWS; i++) {
        use_once(&rows[i]);
    }
    for (size_t i = 0; i < ROWS; i++) {
        count_calls(&rows[i], counts[i]);
        for (size_t k = 0; k < CALLS; k++) {
            used[k] = used[k] || counts[i][k] > 0;
        }
    }
    write_table("\n| resource, and the call that fails |");
    for (size_t k = 0; k < CALLS; k++) {
        write_table(used[k] ? " %s |" : "", cuda_calls[k].name);
    }
    write_table("\n| --- |");
    for (size_t k = 0; k < CALLS; k++) {
        write_table(used[k] ? " --- |" : "");
    }
    for (size_t i = 0; i < ROWS; i++) {
        write_table("\n| %s |", rows[i].name);
        for (size_t k = 0; k < CALLS; k++) {
            char text[TEXT] = "not called";
            if (counts[i][k] > 0) {
                let_fail(&rows[i], &cuda_calls[k], text);
            }
            write_table(used[k] ? " %s |" : "", text);
        }
    }
    write_table("\n");
    close_table();
    cudart_emulated_reset(); /* what could not be released */
}

#endif
