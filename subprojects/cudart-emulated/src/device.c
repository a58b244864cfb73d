/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: attributes, properties, accounting, peers. */
#include "emulated.h"

#include <stdio.h>
#include <string.h>

struct device devices[MAX_DEVICES];
static cudaError_t sticky;

struct attribute {
    int number;
    int value;
};

/* An H200 as far as memory is concerned. */
static const struct attribute attributes[] = {
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 2147483647},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrMaxSharedMemoryPerBlock, 49152},
    {cudaDevAttrTotalConstantMemory, 65536},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrMaxPitch, 2147483647},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrMultiProcessorCount, 132},
    {cudaDevAttrKernelExecTimeout, 0},
    {cudaDevAttrIntegrated, 0},
    {cudaDevAttrCanMapHostMemory, 1},
    {cudaDevAttrComputeMode, 0},
    {cudaDevAttrConcurrentKernels, 1},
    {cudaDevAttrEccEnabled, 1},
    {cudaDevAttrTccDriver, 0},
    {cudaDevAttrL2CacheSize, 62914560},
    {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
    {cudaDevAttrAsyncEngineCount, 3},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrPciDomainId, 0},
    {cudaDevAttrComputeCapabilityMajor, 9},
    {cudaDevAttrComputeCapabilityMinor, 0},
    {cudaDevAttrStreamPrioritiesSupported, 1},
    {cudaDevAttrManagedMemory, 1},
    {cudaDevAttrIsMultiGpuBoard, 0},
    {cudaDevAttrHostNativeAtomicSupported, 0},
    {cudaDevAttrPageableMemoryAccess, 0},
    {cudaDevAttrConcurrentManagedAccess, 1},
    {cudaDevAttrComputePreemptionSupported, 1},
    {cudaDevAttrCanUseHostPointerForRegisteredMem, 1},
    {cudaDevAttrHostRegisterSupported, 1},
    {cudaDevAttrPageableMemoryAccessUsesHostPageTables, 0},
    {cudaDevAttrDirectManagedMemAccessFromHost, 0},
    {102, 1}, /* virtual memory management */
    {103, 1}, /* posix file descriptors as handles */
    {cudaDevAttrMemoryPoolsSupported, 1},
    {cudaDevAttrGPUDirectRDMASupported, 0},
    {cudaDevAttrMemoryPoolSupportedHandleTypes, 9},
    {cudaDevAttrIpcEventSupport, 0},
    {128, 0}, /* fabric handles */
    {cudaDevAttrNumaConfig, 0},
    {cudaDevAttrNumaId, -1},
    {cudaDevAttrMpsEnabled, 0},
    {cudaDevAttrHostNumaId, 0},
    {cudaDevAttrHostNumaMemoryPoolsSupported, 1},
    {cudaDevAttrHostMemoryPoolsSupported, 1},
};
#define ATTRIBUTES (sizeof attributes / sizeof *attributes)

void devices_init(void)
{
    for (int d = 0; d < MAX_DEVICES; d++) {
        devices[d].id = d;
        devices[d].memory = config.memory[d];
    }
}

struct device *current_device(void)
{
    return &devices[thread_state()->device];
}

bool device_valid(int id)
{
    return id >= 0 && id < config.devices;
}

int device_attribute(int device, int attr, bool *known)
{
    int value = 0;
    *known = override_find(device, attr, &value);
    for (size_t i = 0; i < ATTRIBUTES && !*known; i++) {
        if (attributes[i].number == attr) {
            *known = true;
            value = attr == cudaDevAttrPciBusId ? device + 1 : attributes[i].value;
        }
    }
    return value;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

bool device_has_room(const struct device *device, size_t bytes)
{
    size_t used = device->physical - device->managed;
    return bytes <= device->memory && used <= device->memory - bytes;
}

void device_charge(struct device *device, size_t bytes)
{
    device->physical += bytes;
    device->physical_peak = max_size(device->physical_peak, device->physical);
}

void device_refund(struct device *device, size_t bytes)
{
    device->physical -= bytes;
}

/* A cudaMalloc or managed block, counted as it was asked for. */
void device_charge_block(struct device *device, size_t bytes)
{
    device->blocks += bytes;
    device->blocks_peak = max_size(device->blocks_peak, device->blocks);
    device_charge(device, bytes);
}

void device_refund_block(struct device *device, size_t bytes)
{
    device->blocks -= bytes;
    device_refund(device, bytes);
}

void device_set_sticky(cudaError_t err)
{
    if (sticky == cudaSuccess) {
        sticky = err;
    }
}

cudaError_t device_sticky(void)
{
    return sticky;
}

void device_clear_sticky(void)
{
    sticky = cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
    BEGIN(cudaDriverGetVersion, CALL_NO_DEVICE | CALL_STICKY_OK);
    if (driverVersion == NULL) {
        END(cudaErrorInvalidValue);
    }
    *driverVersion = config.driver_version;
    END(cudaSuccess);
}

/* The one call that leaves the process as it was. */
cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
    if (runtimeVersion == NULL) {
        return cudaErrorInvalidValue;
    }
    *runtimeVersion = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    BEGIN(cudaGetDeviceCount, CALL_FORK_OK | CALL_NO_DEVICE | CALL_STICKY_OK);
    if (count == NULL) {
        END(cudaErrorInvalidValue);
    }
    bool usable = config.driver_version >= CUDART_VERSION / 1000 * 1000;
    *count = usable ? config.devices : 0;
    if (!usable) {
        END(cudaErrorInsufficientDriver);
    }
    END(config.devices == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDevice(int *device)
{
    BEGIN(cudaGetDevice, CALL_STICKY_OK);
    if (device == NULL) {
        END(cudaErrorInvalidValue);
    }
    *device = thread_state()->device;
    END(cudaSuccess);
}

cudaError_t cudaSetDevice(int device)
{
    BEGIN(cudaSetDevice, 0);
    if (!device_valid(device)) {
        END(cudaErrorInvalidDevice);
    }
    thread_state()->device = device;
    END(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    BEGIN(cudaDeviceGetAttribute, CALL_STICKY_OK);
    if (value == NULL) {
        END(cudaErrorInvalidValue);
    }
    if (!device_valid(device)) {
        END(cudaErrorInvalidDevice);
    }
    if ((int)attr < 1 || (int)attr > 147) {
        END(cudaErrorInvalidValue);
    }
    bool known;
    int found = device_attribute(device, (int)attr, &known);
    if (!known) {
        END(cudaErrorNotSupported);
    }
    *value = found;
    END(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    BEGIN(cudaGetDeviceProperties, 0);
    if (prop == NULL) {
        END(cudaErrorInvalidValue);
    }
    if (!device_valid(device)) {
        END(cudaErrorInvalidDevice);
    }
    memset(prop, 0, sizeof *prop);
    bool known;
    snprintf(prop->name, sizeof prop->name, "cudart-emulated device %d", device);
    memcpy(prop->uuid.bytes, "cudart-emulated", 15);
    prop->uuid.bytes[15] = (char)device;
    prop->totalGlobalMem = devices[device].memory;
    prop->major = device_attribute(device, cudaDevAttrComputeCapabilityMajor, &known);
    prop->minor = device_attribute(device, cudaDevAttrComputeCapabilityMinor, &known);
    prop->warpSize = device_attribute(device, cudaDevAttrWarpSize, &known);
    prop->multiProcessorCount = device_attribute(device, cudaDevAttrMultiProcessorCount, &known);
    prop->maxThreadsPerBlock = device_attribute(device, cudaDevAttrMaxThreadsPerBlock, &known);
    prop->canMapHostMemory = device_attribute(device, cudaDevAttrCanMapHostMemory, &known);
    prop->concurrentKernels = device_attribute(device, cudaDevAttrConcurrentKernels, &known);
    prop->unifiedAddressing = device_attribute(device, cudaDevAttrUnifiedAddressing, &known);
    prop->asyncEngineCount = device_attribute(device, cudaDevAttrAsyncEngineCount, &known);
    prop->managedMemory = device_attribute(device, cudaDevAttrManagedMemory, &known);
    prop->pageableMemoryAccess = device_attribute(device, cudaDevAttrPageableMemoryAccess, &known);
    prop->concurrentManagedAccess =
        device_attribute(device, cudaDevAttrConcurrentManagedAccess, &known);
    prop->memoryPoolsSupported = device_attribute(device, cudaDevAttrMemoryPoolsSupported, &known);
    prop->memoryPoolSupportedHandleTypes =
        (unsigned)device_attribute(device, cudaDevAttrMemoryPoolSupportedHandleTypes, &known);
    prop->hostRegisterSupported =
        device_attribute(device, cudaDevAttrHostRegisterSupported, &known);
    prop->streamPrioritiesSupported =
        device_attribute(device, cudaDevAttrStreamPrioritiesSupported, &known);
    prop->l2CacheSize = device_attribute(device, cudaDevAttrL2CacheSize, &known);
    END(cudaSuccess);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    BEGIN(cudaDeviceGetStreamPriorityRange, 0);
    if (leastPriority != NULL) {
        *leastPriority = 0;
    }
    if (greatestPriority != NULL) {
        *greatestPriority = -5;
    }
    END(cudaSuccess);
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
    BEGIN(cudaDeviceCanAccessPeer, 0);
    if (canAccessPeer == NULL) {
        END(cudaErrorInvalidValue);
    }
    if (!device_valid(device) || !device_valid(peerDevice)) {
        END(cudaErrorInvalidDevice);
    }
    *canAccessPeer = device != peerDevice && !config.no_peers;
    END(cudaSuccess);
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
    BEGIN(cudaDeviceEnablePeerAccess, 0);
    struct device *device = current_device();
    if (flags != 0) {
        END(cudaErrorInvalidValue);
    }
    if (!device_valid(peerDevice)) {
        END(cudaErrorInvalidDevice);
    }
    if (peerDevice == device->id || config.no_peers) {
        END(cudaErrorPeerAccessUnsupported);
    }
    if (device->peer[peerDevice]) {
        END(cudaErrorPeerAccessAlreadyEnabled);
    }
    device->peer[peerDevice] = true;
    END(cudaSuccess);
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
    BEGIN(cudaDeviceDisablePeerAccess, 0);
    struct device *device = current_device();
    if (!device_valid(peerDevice)) {
        END(cudaErrorInvalidDevice);
    }
    if (!device->peer[peerDevice]) {
        END(cudaErrorPeerAccessNotEnabled);
    }
    device->peer[peerDevice] = false;
    END(cudaSuccess);
}
