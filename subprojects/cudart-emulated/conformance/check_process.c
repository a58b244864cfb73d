/* SPDX-License-Identifier: Apache-2.0 */
/* Fork, exit, threads, reset. */
#include "conformance.h"

#include <sys/mman.h>
#include <sys/wait.h>

static struct gate gate;

/* Verdict text that a forked child writes and its parent prints. */
static char *shared;
#define SHARED_BYTES 4096

static void share(void)
{
    shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void note(const char *name, cudaError_t err)
{
    size_t used = strlen(shared);
    snprintf(shared + used, SHARED_BYTES - used, "%s%s:%s", used != 0 ? "," : "", name, nm(err));
}

static void many_calls(void)
{
    int value;
    size_t a, b;
    void *p;
    note("getdev", cudaGetDevice(&value));
    note("count", cudaGetDeviceCount(&value));
    note("malloc", cudaMalloc(&p, 64));
    note("mallocAsync", cudaMallocAsync(&p, 64, 0));
    note("free0", cudaFree(0));
    note("mallocHost", cudaMallocHost(&p, 64));
    note("squery", cudaStreamQuery(0));
    note("meminfo", cudaMemGetInfo(&a, &b));
    note("sync", cudaDeviceSynchronize());
    note("last", cudaGetLastError());
    note("setdev", cudaSetDevice(0));
}

/* Runs the calls in a child; what it says and how it ends. */
static void in_child(void (*calls)(void))
{
    int status;
    shared[0] = '\0';
    pid_t pid = fork();
    if (pid == 0) {
        calls();
        exit(0);
    }
    waitpid(pid, &status, 0);
    if (shared[0] != '\0') {
        put("%s", shared);
    }
    if (WIFEXITED(status)) {
        put("exit%d", WEXITSTATUS(status));
    } else {
        put("signal%d", WTERMSIG(status));
    }
}

static void prc01(void)
{
    void *p;
    share();
    cudaMalloc(&p, 64);
    in_child(many_calls);
    put("parent:%s", nm(cudaMalloc(&p, 64)));
}

static void prc03(void)
{
    void *p;
    share();
    in_child(many_calls);
    put("parent:%s", nm(cudaMalloc(&p, 64)));
}

static void prc04(void)
{
    int count;
    share();
    cudaGetDeviceCount(&count);
    in_child(many_calls);
}

static void prc05(void)
{
    share();
    cudaGetErrorName(cudaSuccess);
    cudaGetLastError();
    in_child(many_calls);
}

static struct {
    void *p, *q, *h;
    cudaEvent_t e;
    cudaStream_t s;
} mine;

static void make_objects(void)
{
    mine.s = nonblocking();
    mine.e = event();
    cudaMalloc(&mine.p, 64);
    cudaMallocAsync(&mine.q, 64, mine.s);
    cudaMallocHost(&mine.h, 64);
    cudaEventRecord(mine.e, mine.s);
    cudaDeviceSynchronize();
}

static void late_calls(void)
{
    int value;
    size_t a, b;
    void *p;
    note("getdev", cudaGetDevice(&value));
    note("equery", cudaEventQuery(mine.e));
    note("ssync", cudaStreamSynchronize(mine.s));
    note("freeAsync", cudaFreeAsync(mine.q, mine.s));
    note("free", cudaFree(mine.p));
    note("freeHost", cudaFreeHost(mine.h));
    note("edestroy", cudaEventDestroy(mine.e));
    note("sdestroy", cudaStreamDestroy(mine.s));
    note("malloc", cudaMalloc(&p, 64));
    note("meminfo", cudaMemGetInfo(&a, &b));
    note("last", cudaGetLastError());
}

static bool in_destructor;

__attribute__((destructor)) static void destructor(void)
{
    if (in_destructor) {
        late_calls();
    }
}

static void early_handler(void)
{
    atexit(late_calls);
    make_objects();
}

static void late_handler(void)
{
    make_objects();
    atexit(late_calls);
}

static void by_destructor(void)
{
    in_destructor = true;
    make_objects();
}

/* The child's calls come while it exits. */
static void at_exit(const char *name, void (*prepare)(void))
{
    int status;
    share();
    pid_t pid = fork();
    if (pid == 0) {
        prepare();
        exit(0);
    }
    waitpid(pid, &status, 0);
    put("%s[%s]", name, shared);
    put("exit%d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void prc06(void)
{
    at_exit("before", early_handler);
}

static void prc07(void)
{
    at_exit("after", late_handler);
}

static void prc08(void)
{
    at_exit("dtor", by_destructor);
}

static void gated(void (*end)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(6);
        gate_close(&gate, nonblocking());
        end();
        exit(0);
    }
    waitpid(pid, &status, 0);
    put("(silent)");
    if (WIFEXITED(status)) {
        put("exit%d", WEXITSTATUS(status));
    } else {
        put("signal%d", WTERMSIG(status));
    }
}

static void just_exit(void)
{
    exit(0);
}

static void exit_quickly(void)
{
    _exit(0);
}

static void reset(void)
{
    cudaDeviceReset();
}

static void prc09(void)
{
    gated(just_exit);
}

static void prc10(void)
{
    gated(exit_quickly);
}

static void prc11(void)
{
    gated(reset);
}

static unsigned char *pinned;

static void short_thread(void *unused)
{
    (void)unused;
    gate_close(&gate, cudaStreamPerThread);
    cudaMemsetAsync(pinned, 9, 64, cudaStreamPerThread);
}

static void prc12(void)
{
    void *p;
    put("%s", nm(cudaMallocHost(&p, 64)));
    pinned = p;
    pinned[0] = 0;
    in_thread(short_thread, NULL);
    put("join_%s", gate_is_open(&gate) ? "wait" : "ret");
    gate_open(&gate);
    cudaDeviceSynchronize();
    put("work:%s", pinned[0] == 9 ? "done" : "lost");
}

static void thread_malloc(void *err)
{
    void *p;
    *(cudaError_t *)err = cudaMalloc(&p, 64);
}

static void prc13(void)
{
    unsigned long long before, after;
    cudaMemPool_t pool, again;
    struct cudaPointerAttributes a;
    cudaError_t err;
    void *p;
    make_objects();
    cudaStreamGetId(0, &before);
    cudaDeviceGetDefaultMemPool(&pool, 0);
    put("reset:%s", nm(cudaDeviceReset()));
    put("free:%s", nm(cudaFree(mine.p)));
    put("freeAsync:%s", nm(cudaFreeAsync(mine.q, 0)));
    put("freeHost:%s", nm(cudaFreeHost(mine.h)));
    cudaPointerGetAttributes(&a, mine.p);
    put("attr:t%d/dev%d/%s/%s", (int)a.type, a.device, a.devicePointer == NULL ? "0" : "dp",
        a.hostPointer == mine.p ? "hp=p" : "0");
    put("malloc:%s", nm(cudaMalloc(&p, 64)));
    in_thread(thread_malloc, &err);
    put("thread:%s", nm(err));
    cudaStreamGetId(0, &after);
    put("id0_%s", before == after ? "same" : "new");
    cudaDeviceGetDefaultMemPool(&again, 0);
    put("pool_%s", pool == again ? "same" : "new");
}

static int which;

static void first_call(void)
{
    int value = 0;
    size_t a, b;
    unsigned long long id;
    cudaEvent_t e;
    struct cudaPointerAttributes attributes;
    cudaError_t err = cudaSuccess;
    switch (which) {
    case 0:
        err = cudaFree(0);
        break;
    case 1:
        err = cudaStreamGetId(0, &id);
        break;
    case 2:
        err = cudaMemGetInfo(&a, &b);
        break;
    case 3:
        err = cudaEventCreate(&e);
        break;
    case 4:
        err = cudaPointerGetAttributes(&attributes, &value);
        break;
    case 5:
        err = cudaGetDeviceCount(&value);
        break;
    case 6:
        err = cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0);
        break;
    default:
        err = cudaFreeHost(NULL);
    }
    snprintf(shared, SHARED_BYTES, "%d:%s", which, nm(err));
}

static void prc14(void)
{
    share();
    for (which = 0; which < 8; which++) {
        in_child(first_call);
    }
}

static void one_call(void)
{
    int value;
    void *p;
    enum cudaDriverEntryPointQueryResult result;
    switch (which) {
    case 0:
        cudaGetErrorName(cudaSuccess);
        break;
    case 1:
        cudaGetErrorString(cudaSuccess);
        break;
    case 2:
        cudaPeekAtLastError();
        break;
    case 3:
        cudaGetLastError();
        break;
    case 4:
        cudaRuntimeGetVersion(&value);
        break;
    case 5:
        cudaDriverGetVersion(&value);
        break;
    default:
#if CUDART_VERSION >= 12050
        cudaGetDriverEntryPointByVersion("cuStreamGetId", &p, 12000, cudaEnableDefault, &result);
#else
        cudaGetDriverEntryPoint("cuStreamGetId", &p, cudaEnableDefault, &result);
#endif
    }
}

static void child_malloc(void)
{
    void *p;
    note("child_malloc", cudaMalloc(&p, 64));
}

/* Seven parents, each with a child of its own. */
static void prc15(void)
{
    share();
    for (which = 0; which < 7; which++) {
        int status;
        shared[0] = '\0';
        pid_t pid = fork();
        if (pid == 0) {
            one_call();
            pid_t child = fork();
            if (child == 0) {
                child_malloc();
                exit(0);
            }
            waitpid(child, &status, 0);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
        }
        waitpid(pid, &status, 0);
        put("%s", shared);
        put("exit%d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
}

const struct check process_checks[] = {
    {"PRC01", prc01}, {"PRC03", prc03}, {"PRC04", prc04}, {"PRC05", prc05}, {"PRC06", prc06},
    {"PRC07", prc07}, {"PRC08", prc08}, {"PRC09", prc09}, {"PRC10", prc10}, {"PRC11", prc11},
    {"PRC12", prc12}, {"PRC13", prc13}, {"PRC14", prc14}, {"PRC15", prc15}, {NULL, NULL},
};
