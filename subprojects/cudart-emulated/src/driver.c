/* SPDX-License-Identifier: Apache-2.0 */
/* Driver functions, reachable only as entry points, as they are without libcuda. */
#include "emulated.h"
#include "vmm.h"

#include <string.h>

struct symbol {
    const char *name;
    void (*function)(void);
    int since;
};

static char contexts[MAX_DEVICES];

static CUcontext context_of(const struct device *device)
{
    return (CUcontext)(void *)&contexts[device->id];
}

static CUresult drv_cuInit(unsigned int Flags)
{
    BEGIN_DRIVER(cuInit, 0);
    END_DRIVER(Flags == 0 ? cudaSuccess : cudaErrorInvalidValue);
}

static CUresult drv_cuDriverGetVersion(int *driverVersion)
{
    BEGIN_DRIVER(cuDriverGetVersion, 0);
    if (driverVersion == NULL) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    *driverVersion = config.driver_version;
    END_DRIVER(cudaSuccess);
}

/* A driver's error has a runtime error's number; CUDA_ERROR_ names are not kept. */
static CUresult drv_cuGetErrorString(CUresult error, const char **pStr)
{
    BEGIN_DRIVER(cuGetErrorString, CALL_STICKY_OK);
    if (pStr == NULL) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    *pStr = error_text((cudaError_t)error);
    END_DRIVER(*pStr == NULL ? cudaErrorInvalidValue : cudaSuccess);
}

static CUresult drv_cuDeviceGet(CUdevice *device, int ordinal)
{
    BEGIN_DRIVER(cuDeviceGet, 0);
    if (device == NULL) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    if (!device_valid(ordinal)) {
        END_DRIVER(cudaErrorInvalidDevice);
    }
    *device = ordinal;
    END_DRIVER(cudaSuccess);
}

static CUresult drv_cuDeviceGetCount(int *count)
{
    BEGIN_DRIVER(cuDeviceGetCount, CALL_NO_DEVICE);
    if (count == NULL) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    *count = config.devices;
    END_DRIVER(cudaSuccess);
}

static CUresult drv_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    BEGIN_DRIVER(cuDeviceGetAttribute, CALL_STICKY_OK);
    bool known;
    if (pi == NULL || (int)attrib < 1 || (int)attrib > 147) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    if (!device_valid(dev)) {
        END_DRIVER(cudaErrorInvalidDevice);
    }
    int value = device_attribute(dev, (int)attrib, &known);
    if (!known) {
        END_DRIVER(cudaErrorNotSupported);
    }
    *pi = value;
    END_DRIVER(cudaSuccess);
}

static CUresult drv_cuCtxGetCurrent(CUcontext *pctx)
{
    BEGIN_DRIVER(cuCtxGetCurrent, CALL_STICKY_OK);
    if (pctx == NULL) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    *pctx = thread_state()->has_context ? context_of(current_device()) : NULL;
    END_DRIVER(cudaSuccess);
}

static CUresult drv_cuCtxSetCurrent(CUcontext ctx)
{
    BEGIN_DRIVER(cuCtxSetCurrent, 0);
    struct thread_state *thread = thread_state();
    if (ctx == NULL) {
        thread->has_context = false;
        END_DRIVER(cudaSuccess);
    }
    for (int d = 0; d < config.devices; d++) {
        if (ctx == context_of(&devices[d])) {
            thread->device = d;
            thread->has_context = true;
            END_DRIVER(cudaSuccess);
        }
    }
    END_DRIVER(cudaErrorDeviceUninitialized);
}

static CUresult drv_cuCtxGetDevice(CUdevice *device)
{
    BEGIN_DRIVER(cuCtxGetDevice, CALL_STICKY_OK);
    if (device == NULL) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    if (!thread_state()->has_context) {
        END_DRIVER(cudaErrorDeviceUninitialized);
    }
    *device = thread_state()->device;
    END_DRIVER(cudaSuccess);
}

static CUresult drv_cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    BEGIN_DRIVER(cuStreamGetId, 0);
    END_DRIVER(stream_get_id(hStream, streamId));
}

static CUresult drv_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    BEGIN_DRIVER(cuStreamGetCtx, 0);
    struct stream *stream;
    if (pctx == NULL) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    err = stream_find(hStream, &stream);
    if (err == cudaSuccess) {
        *pctx = context_of(stream->device);
    }
    END_DRIVER(err);
}

static CUresult drv_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    BEGIN_DRIVER(cuStreamIsCapturing, 0);
    int status = 0;
    err = captureStatus == NULL ? cudaErrorInvalidValue : capture_status(hStream, &status);
    if (err == cudaSuccess) {
        *captureStatus = (CUstreamCaptureStatus)status;
    }
    END_DRIVER(err);
}

static CUresult drv_cuStreamQuery(CUstream hStream)
{
    BEGIN_DRIVER(cuStreamQuery, 0);
    END_DRIVER(stream_query(hStream));
}

static CUresult drv_cuStreamSynchronize(CUstream hStream)
{
    BEGIN_DRIVER(cuStreamSynchronize, 0);
    END_DRIVER(stream_synchronize(hStream));
}

static CUresult drv_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    BEGIN_DRIVER(cuStreamWaitEvent, 0);
    engine_mischief();
    END_DRIVER(stream_wait_event(hStream, hEvent, Flags, this_fn));
}

static CUresult drv_cuEventRecord(CUevent hEvent, CUstream hStream)
{
    BEGIN_DRIVER(cuEventRecord, 0);
    engine_mischief();
    END_DRIVER(event_record(hEvent, hStream, 0, this_fn));
}

static CUresult drv_cuEventQuery(CUevent hEvent)
{
    BEGIN_DRIVER(cuEventQuery, CALL_IN_HOST_FN);
    END_DRIVER(event_query(hEvent));
}

static CUresult drv_cuEventSynchronize(CUevent hEvent)
{
    BEGIN_DRIVER(cuEventSynchronize, 0);
    END_DRIVER(event_synchronize(hEvent));
}

static CUresult drv_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    BEGIN_DRIVER(cuLaunchHostFunc, 0);
    engine_mischief();
    END_DRIVER(launch_host_func(hStream, fn, userData, this_fn));
}

static CUresult drv_cuMemAlloc(CUdeviceptr *dptr, size_t bytesize)
{
    BEGIN_DRIVER(cuMemAlloc, 0);
    void *ptr = NULL;
    if (dptr == NULL || bytesize == 0) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    err = device_malloc(&ptr, bytesize);
    *dptr = (CUdeviceptr)(uintptr_t)ptr;
    END_DRIVER(err);
}

static CUresult drv_cuMemFree(CUdeviceptr dptr)
{
    BEGIN_DRIVER(cuMemFree, 0);
    END_DRIVER(device_free((void *)(uintptr_t)dptr, this_fn));
}

static CUresult drv_cuMemGetInfo(size_t *free, size_t *total)
{
    BEGIN_DRIVER(cuMemGetInfo, 0);
    END_DRIVER(mem_get_info(free, total));
}

/* One shape for all, if it has the type of the driver's function. */
#define SYMBOL(name, function, since)                                                          \
    {                                                                                          \
#name, (void (*)(void)) _Generic(&(function), __typeof__(name) * : &(function)), since \
    }

static const struct symbol symbols[] = {
    SYMBOL(cuInit, drv_cuInit, 2000),
    SYMBOL(cuDriverGetVersion, drv_cuDriverGetVersion, 2020),
    SYMBOL(cuGetErrorString, drv_cuGetErrorString, 6000),
    SYMBOL(cuDeviceGet, drv_cuDeviceGet, 2000),
    SYMBOL(cuDeviceGetCount, drv_cuDeviceGetCount, 2000),
    SYMBOL(cuDeviceGetAttribute, drv_cuDeviceGetAttribute, 2000),
    SYMBOL(cuCtxGetCurrent, drv_cuCtxGetCurrent, 4000),
    SYMBOL(cuCtxSetCurrent, drv_cuCtxSetCurrent, 4000),
    SYMBOL(cuCtxGetDevice, drv_cuCtxGetDevice, 2000),
    SYMBOL(cuStreamGetId, drv_cuStreamGetId, 12000),
    SYMBOL(cuStreamGetCtx, drv_cuStreamGetCtx, 9020),
    SYMBOL(cuStreamIsCapturing, drv_cuStreamIsCapturing, 10000),
    SYMBOL(cuStreamQuery, drv_cuStreamQuery, 2000),
    SYMBOL(cuStreamSynchronize, drv_cuStreamSynchronize, 2000),
    SYMBOL(cuStreamWaitEvent, drv_cuStreamWaitEvent, 3020),
    SYMBOL(cuEventRecord, drv_cuEventRecord, 2000),
    SYMBOL(cuEventQuery, drv_cuEventQuery, 2000),
    SYMBOL(cuEventSynchronize, drv_cuEventSynchronize, 2000),
    SYMBOL(cuLaunchHostFunc, drv_cuLaunchHostFunc, 10000),
    SYMBOL(cuMemAlloc, drv_cuMemAlloc, 3020),
    SYMBOL(cuMemFree, drv_cuMemFree, 3020),
    SYMBOL(cuMemGetInfo, drv_cuMemGetInfo, 3020),
    SYMBOL(cuMemGetAllocationGranularity, vmm_cuMemGetAllocationGranularity, 10020),
    SYMBOL(cuMemAddressReserve, vmm_cuMemAddressReserve, 10020),
    SYMBOL(cuMemAddressFree, vmm_cuMemAddressFree, 10020),
    SYMBOL(cuMemCreate, vmm_cuMemCreate, 10020),
    SYMBOL(cuMemRelease, vmm_cuMemRelease, 10020),
    SYMBOL(cuMemMap, vmm_cuMemMap, 10020),
    SYMBOL(cuMemUnmap, vmm_cuMemUnmap, 10020),
    SYMBOL(cuMemSetAccess, vmm_cuMemSetAccess, 10020),
    SYMBOL(cuMemGetAccess, vmm_cuMemGetAccess, 10020),
    SYMBOL(cuMemRetainAllocationHandle, vmm_cuMemRetainAllocationHandle, 11000),
    SYMBOL(cuMemGetAllocationPropertiesFromHandle, vmm_cuMemGetAllocationPropertiesFromHandle,
           10020),
    SYMBOL(cuMemExportToShareableHandle, vmm_cuMemExportToShareableHandle, 10020),
    SYMBOL(cuMemImportFromShareableHandle, vmm_cuMemImportFromShareableHandle, 10020),
};

static const struct symbol *find(const char *name)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        if (strcmp(symbols[i].name, name) == 0) {
            return &symbols[i];
        }
    }
    return NULL;
}

static cudaError_t entry_point(const char *name, void **out, int version, unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status)
{
    if (name == NULL || out == NULL || flags > cudaEnablePerThreadDefaultStream) {
        return cudaErrorInvalidValue;
    }
    if (flags == cudaEnablePerThreadDefaultStream) {
        return cudaErrorNotSupported;
    }
    const struct symbol *found = find(name);
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
    *out = NULL;
    if (found == NULL || found->since > config.driver_version) {
        result = cudaDriverEntryPointSymbolNotFound;
    } else if (found->since > version) {
        result = cudaDriverEntryPointVersionNotSufficent;
    } else {
        memcpy(out, &found->function, sizeof *out);
    }
    if (status != NULL) {
        *status = result;
    }
    return cudaSuccess; /* what was not found is NULL */
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *driverStatus)
{
    BEGIN(cudaGetDriverEntryPoint, 0);
    END(entry_point(symbol, funcPtr, CUDART_VERSION, flags, driverStatus));
}

#if CUDART_EMULATED_API_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
                                             unsigned int cudaVersion, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *driverStatus)
{
    BEGIN(cudaGetDriverEntryPointByVersion, 0);
    END(entry_point(symbol, funcPtr, (int)cudaVersion, flags, driverStatus));
}
#endif
