/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every resource of the build against every case that all of them must answer; its other file lets
 * calls of CUDA's fail, on the emulation. The rows are in every_resource.c; a class without a row
 * fails. With CRMM_BEHAVIOUR_MATRIX=FILE in the environment the answers are written there as
 * tables: an allocation's status, "reported" if a deallocation ended in a finding, and two statuses
 * where the calls with a stream and without differ.
 */
#include <stdint.h>
#include <stdio.h>

#include <crmm/core/alignment.h>
#include <crmm/core/misuse.h>

#include "behaviour_table.h"
#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "spec.h"

#ifdef CUDART_EMULATED
#include <cudart_emulated.h>
#endif

enum { KIB = 1024, MIB = 1 << 20 };

/* ---- rows ---- */

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
        for (size_t k = 0; k < row_count; k++) {
            found = found || is_row_of(&rows[k], classes[i].name);
        }
        cr_expect(found, "%s has no row", classes[i].name);
    }
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

/* How often CUDA was called, but for its last error; not known on a GPU. */
static unsigned long long count_calls(void)
{
#ifdef CUDART_EMULATED
    return cudart_emulated_calls(NULL) - cudart_emulated_calls("cudaPeekAtLastError") -
           cudart_emulated_calls("cudaGetLastError");
#else
    return 0;
#endif
}

/* User report 50: such a request succeeded with NULL. Nobody is asked. */
static void near_size_max(const row *of, crmm_resource *mr, answer *out)
{
    static const size_t less[] = {0, 1, 255, 256, 257, 4096, 2 * MIB, SIZE_MAX / 2 - 1};
    unsigned long long calls = count_calls();

    for (size_t i = 0; i < sizeof(less) / sizeof(less[0]); i++) {
        ask_in_vain(of, mr, SIZE_MAX - less[i], 256, CRMM_ERROR_OUT_OF_MEMORY, out);
    }
    out->right = out->right && count_calls() == calls;
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

/* All that CUDA has by default; blocking ones too. */
static void kinds_of_streams(const row *of, crmm_resource *mr, answer *out)
{
    cudaStream_t blocking = NULL;

    (void)of;
    cuda(cudaStreamCreate(&blocking));
    crmm_stream const streams[] = {NULL, CRMM_STREAM_LEGACY, CRMM_STREAM_PER_THREAD, blocking};
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        void *ptr = NULL;
        say(out, crmm_allocate(mr, streams[i], 1000, 256, &ptr),
            is_stream_ordered(mr) ? CRMM_SUCCESS : CRMM_ERROR_PROPERTY);
        give(mr, streams[i], ptr, 1000, 256);
    }
    cuda(cudaStreamSynchronize(blocking));
    cuda(cudaStreamDestroy(blocking));
}

/* Pools of the driver's take part in the graph; nobody else gives memory, nor harms the capture. */
static void captured_stream(const row *of, crmm_resource *mr, answer *out)
{
    cudaStream_t stream = make_stream();
    cudaGraph_t graph = NULL;
    void *ptr = NULL;
    crmm_status expected = of->is_captured ? CRMM_SUCCESS : CRMM_ERROR_UNSUPPORTED;

    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    say(out, crmm_allocate(mr, stream, 1000, 256, &ptr),
        is_stream_ordered(mr) ? expected : CRMM_ERROR_PROPERTY);
    give(mr, stream, ptr, 1000, 256);
    out->right = cudaStreamEndCapture(stream, &graph) == cudaSuccess && out->right;
#ifndef CUDART_EMULATED
    /* Whether managed memory can be part of a graph is the driver's affair. */
    if (of->is_captured && crmm_resource_has(mr, CRMM_HOST_ACCESSIBLE)) {
        out->right = true;
        (void)cudaGetLastError();
    }
#endif
    if (graph != NULL) {
        cuda(cudaGraphDestroy(graph));
    }
    cuda(cudaStreamDestroy(stream));
}

/* Whether there is one; if not, the cell says so. */
static bool has_second_device(answer *out)
{
    int devices = 0;

    cuda(cudaGetDeviceCount(&devices));
    if (devices < 2) {
        (void)snprintf(out->text, sizeof(out->text), "not run: one device");
    }
    return devices >= 2;
}

/* A stream knows its device, and CUDA orders streams of different ones. */
static void other_devices_stream(const row *of, crmm_resource *mr, answer *out)
{
    int current = -1;
    void *ptr = NULL;

    (void)of;
    if (!has_second_device(out)) {
        return;
    }
    cuda(cudaSetDevice(1));
    cudaStream_t stream = make_stream();
    cuda(cudaSetDevice(0));
    for (int round = 0; round < 2; round++) {
        say(out, crmm_allocate(mr, stream, 1000, 256, &ptr),
            is_stream_ordered(mr) ? CRMM_SUCCESS : CRMM_ERROR_PROPERTY);
        give(mr, stream, ptr, 1000, 256);
        ptr = NULL;
    }
    cuda(cudaGetDevice(&current));
    out->right = out->right && current == 0;
    cuda(cudaStreamSynchronize(stream));
    cuda(cudaStreamDestroy(stream));
}

/* The caller's device stays current, and memory is that of the resource's device. */
static void other_device(const row *of, crmm_resource *mr, answer *out)
{
    int current = -1;
    void *ptr = NULL;

    (void)of;
    if (!has_second_device(out)) {
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

/* User report 69: a failure that was handled came up again in the next call of CUDA's (that none
 * does is looked at after every case). One that is not ours stays; where a call of ours fails, CUDA
 * itself puts that error in its place. */
static void foreign_error(const row *of, crmm_resource *mr, answer *out)
{
    void *ptr = NULL;

    (void)cudaSetDevice(99);
    out->right = out->right && cudaPeekAtLastError() == cudaErrorInvalidDevice;
    say(out, take(mr, NULL, 1000, 256, &ptr), CRMM_SUCCESS);
    give(mr, NULL, ptr, 1000, 256);
    say(out, crmm_allocate_sync(mr, 1000, 256, &ptr), CRMM_SUCCESS);
    crmm_deallocate_sync(mr, ptr, 1000, 256);
    out->right = out->right && cudaPeekAtLastError() == cudaErrorInvalidDevice;
    say(out, take(mr, NULL, (size_t)1 << 50, 256, &ptr),
        of->too_much != CRMM_SUCCESS ? of->too_much : CRMM_ERROR_OUT_OF_MEMORY);
    out->right = out->right && cudaGetLastError() != cudaSuccess;
    (void)snprintf(out->text, sizeof(out->text), "stays");
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
    {"default and blocking streams", kinds_of_streams},
    {"captured stream", captured_stream},
    {"stream of another device", other_devices_stream},
    {"another device current", other_device},
    {"1 PiB", out_of_memory},
    {"an error that is not ours", foreign_error},
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

Test(behaviour_matrix, every_resource_answers_every_case, .timeout = 100)
{
    every_resource_set_up();
    need_devices(1);
    table_open("w");
    misuse_recorder_start();
    table_write("| resource |");
    for (size_t k = 0; k < COLUMNS; k++) {
        table_write(" %s |", columns[k].name);
    }
    table_write("\n| --- |");
    for (size_t k = 0; k < COLUMNS; k++) {
        table_write(" --- |");
    }
    for (size_t i = 0; i < row_count; i++) {
        char why[TEXT] = "";
        crmm_resource *mr = make_row(&rows[i], why);
        size_t before = misuse_recorded()->count;

        table_write("\n| %s |", rows[i].name);
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
            table_write(" %s |", out.text);
        }
        crmm_resource_release(&mr);
        cr_expect(misuse_recorded()->count == before, "%s: %s", rows[i].name,
                  misuse_recorded()->message);
    }
    table_write("\n");
    table_close();
}
