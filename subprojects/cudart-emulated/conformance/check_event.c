/* SPDX-License-Identifier: Apache-2.0 */
/* Events. */
#include "conformance.h"

static struct gate gate;

static const char *state(bool value)
{
    return value ? "runs" : "waits";
}

static void evt01(void)
{
    cudaStream_t a = nonblocking();
    cudaEvent_t e = event();
    put("wait:%s", nm(cudaStreamWaitEvent(a, e, 0)));
    put("A_%s", state(runs(a)));
    put("query:%s", nm(cudaEventQuery(e)));
    put("sync:%s", nm(cudaEventSynchronize(e)));
}

static void evt02(void)
{
    cudaStream_t a = nonblocking(), b = nonblocking(), c = nonblocking();
    cudaEvent_t e = event(), done = event();
    gate_close(&gate, a);
    cudaEventRecord(e, a);
    cudaStreamWaitEvent(b, e, 0);
    cudaEventRecord(e, c);
    cudaEventRecord(done, b);
    put("B_%s", state(completes(done)));
    gate_open(&gate);
    put("after:%s", cudaStreamSynchronize(b) == cudaSuccess ? "runs" : "fails");
}

static void evt03(void)
{
    cudaStream_t a = nonblocking(), b = nonblocking(), c = nonblocking();
    cudaEvent_t e = event();
    gate_close(&gate, a);
    cudaEventRecord(e, c);
    cudaStreamWaitEvent(b, e, 0);
    cudaEventRecord(e, a);
    put("B_%s", state(runs(b)));
    gate_open(&gate);
}

static void evt04(void)
{
    cudaStream_t a = nonblocking(), c = nonblocking();
    cudaEvent_t e = event();
    gate_close(&gate, a);
    cudaEventRecord(e, a);
    put("first:%s", nm(cudaEventQuery(e)));
    cudaEventRecord(e, c);
    put("second:%s", completes(e) ? "ok" : "NotReady");
    gate_open(&gate);
}

static void evt05(void)
{
    cudaStream_t a = nonblocking(), c = nonblocking();
    cudaEvent_t e = event();
    cudaEventRecord(e, c);
    cudaEventSynchronize(e);
    gate_close(&gate, a);
    cudaEventRecord(e, a);
    put("%s", nm(cudaEventQuery(e)));
    gate_open(&gate);
}

struct waiter {
    pthread_t thread;
    cudaEvent_t e;
    cudaError_t err;
    int started, returned;
};

static bool waiter_returned(struct waiter *waiter)
{
    for (int i = 0; i < 150 && !__atomic_load_n(&waiter->returned, __ATOMIC_SEQ_CST); i++) {
        usleep(1000);
    }
    return __atomic_load_n(&waiter->returned, __ATOMIC_SEQ_CST);
}

static void *wait_event(void *arg)
{
    struct waiter *waiter = arg;
    __atomic_store_n(&waiter->started, 1, __ATOMIC_SEQ_CST);
    waiter->err = cudaEventSynchronize(waiter->e);
    __atomic_store_n(&waiter->returned, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void waiter_start(struct waiter *waiter, cudaEvent_t e)
{
    *waiter = (struct waiter){.e = e};
    pthread_create(&waiter->thread, NULL, wait_event, waiter);
    while (!__atomic_load_n(&waiter->started, __ATOMIC_SEQ_CST)) {
        usleep(200);
    }
    usleep(30000);
}

static void evt06(void)
{
    cudaStream_t a = nonblocking(), c = nonblocking();
    cudaEvent_t e = event();
    struct waiter waiter;
    gate_close(&gate, a);
    cudaEventRecord(e, a);
    waiter_start(&waiter, e);
    cudaEventRecord(e, c);
    put("T_%s", waiter_returned(&waiter) ? "returned" : "still_waits");
    gate_open(&gate);
    pthread_join(waiter.thread, NULL);
    put("%s", nm(waiter.err));
}

static void evt07(void)
{
    cudaStream_t a = nonblocking(), b = nonblocking();
    cudaEvent_t e = event();
    struct waiter waiter;
    gate_close(&gate, a);
    cudaEventRecord(e, a);
    waiter_start(&waiter, e);
    static struct gate second;
    /* Host functions share a thread: this one is queued, and entered when the first is done. */
    cudaLaunchHostFunc(b, gate_hold, &second);
    cudaEventRecord(e, b);
    gate_open(&gate);
    put("T_%s", waiter_returned(&waiter) ? "returned" : "still_waits");
    gate_open(&second);
    pthread_join(waiter.thread, NULL);
    put("%s", nm(waiter.err));
}

static void evt08(void)
{
    cudaStream_t a = nonblocking(), b = nonblocking();
    cudaEvent_t e = event(), done = event();
    gate_close(&gate, a);
    cudaEventRecord(e, a);
    cudaStreamWaitEvent(b, e, 0);
    cudaEventDestroy(e);
    put("destroy_%s", gate_is_open(&gate) ? "wait" : "ret");
    cudaEventRecord(done, b);
    put("B_%s", state(completes(done)));
    gate_open(&gate);
    put("after_%s", cudaEventSynchronize(done) == cudaSuccess ? "runs" : "fails");
}

static void evt11(void)
{
    cudaStream_t a = nonblocking(), b = nonblocking();
    cudaEvent_t e = event(), done = event();
    gate_close(&gate, a);
    cudaEventRecord(e, a);
    put("destroy:%s", nm(cudaStreamDestroy(a)));
    put("query:%s", nm(cudaEventQuery(e)));
    cudaStreamWaitEvent(b, e, 0);
    cudaEventRecord(done, b);
    put("B_%s", state(completes(done)));
    gate_open(&gate);
    put("sync:%s", nm(cudaEventSynchronize(e)));
    put("B_%s", cudaEventSynchronize(done) == cudaSuccess ? "runs" : "fails");
}

static void evt12(void)
{
    cudaStream_t a = nonblocking();
    cudaEvent_t x = event(), y = event(), s, t;
    float ms = 0;
    cudaEventCreate(&s);
    cudaEventCreate(&t);
    cudaEventRecord(x, a);
    cudaEventRecord(y, a);
    cudaStreamSynchronize(a);
    put("a:%s", nm(cudaEventElapsedTime(&ms, x, y)));
    put("b:%s", nm(cudaEventElapsedTime(&ms, s, t)));
    cudaEventRecord(s, a);
    cudaStreamSynchronize(a);
    gate_close(&gate, a);
    cudaEventRecord(t, a);
    put("c:%s", nm(cudaEventElapsedTime(&ms, s, t)));
    gate_open(&gate);
    cudaStreamSynchronize(a);
    put("d:%s", nm(cudaEventElapsedTime(&ms, t, s)));
    put("%s", ms < 0 ? "negative" : "not_negative");
}

static void evt13(void)
{
    cudaEvent_t e;
    put("%s", nm(cudaEventCreateWithFlags(&e, 0x80)));
    put("%s", nm(cudaEventCreateWithFlags(&e, cudaEventInterprocess)));
    put("%s", nm(cudaEventCreateWithFlags(NULL, 0)));
}

static void evt14(void)
{
    cudaStream_t a = nonblocking();
    cudaEvent_t e = event();
    gate_close(&gate, a);
    cudaGetLastError();
    cudaEventRecord(e, a);
    put("%s", nm(cudaEventQuery(e)));
    put("peek:%s", nm(cudaPeekAtLastError()));
    put("get:%s", nm(cudaGetLastError()));
    put("then:%s", nm(cudaPeekAtLastError()));
    put("%s", nm(cudaStreamQuery(a)));
    put("peek:%s", nm(cudaPeekAtLastError()));
    gate_open(&gate);
}

static void evt15(void)
{
    cudaStream_t a = nonblocking();
    put("%s", nm(cudaEventRecord(NULL, a)));
    put("%s", nm(cudaEventQuery(NULL)));
    put("%s", nm(cudaEventSynchronize(NULL)));
    put("%s", nm(cudaStreamWaitEvent(a, NULL, 0)));
    put("%s", nm(cudaEventDestroy(NULL)));
}

static void evt18(void)
{
    cudaStream_t a = nonblocking();
    cudaEvent_t e = event();
    put("%s", nm(cudaEventRecordWithFlags(e, a, cudaEventRecordExternal)));
    put("%s", nm(cudaEventRecordWithFlags(e, a, 0x10)));
    put("%s", nm(cudaStreamWaitEvent(a, e, cudaEventWaitExternal)));
    put("%s", nm(cudaStreamWaitEvent(a, e, 0x10)));
}

static void evt19(void)
{
    cudaStream_t a = nonblocking(), b = nonblocking(), c = nonblocking();
    cudaEvent_t e1 = event(), e2 = event(), done = event();
    gate_close(&gate, a);
    cudaEventRecord(e1, a);
    cudaStreamWaitEvent(b, e1, 0);
    cudaEventRecord(e2, b);
    cudaStreamWaitEvent(c, e2, 0);
    cudaEventRecord(done, c);
    put("E2:%s", nm(cudaEventQuery(e2)));
    put("C_%s", state(completes(done)));
    gate_open(&gate);
    put("C_%s", cudaEventSynchronize(done) == cudaSuccess ? "runs" : "fails");
}

static void evt20(void)
{
    cudaStream_t a = blocking(), c = nonblocking();
    cudaEvent_t e = event();
    gate_close(&gate, a);
    cudaEventRecord(e, 0);
    cudaStreamWaitEvent(c, e, 0);
    put("C_%s", state(runs(c)));
    gate_open(&gate);
}

const struct check event_checks[] = {
    {"EVT01", evt01}, {"EVT02", evt02}, {"EVT03", evt03}, {"EVT04", evt04}, {"EVT05", evt05},
    {"EVT06", evt06}, {"EVT07", evt07}, {"EVT08", evt08}, {"EVT11", evt11}, {"EVT12", evt12},
    {"EVT13", evt13}, {"EVT14", evt14}, {"EVT15", evt15}, {"EVT18", evt18}, {"EVT19", evt19},
    {"EVT20", evt20}, {NULL, NULL},
};
