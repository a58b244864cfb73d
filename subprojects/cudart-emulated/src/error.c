/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of errors. */
#include "emulated.h"

#include <string.h>

#define ERRORS                                                                                   \
    ERROR(cudaSuccess, "no error")                                                               \
    ERROR(cudaErrorInvalidValue, "invalid argument")                                             \
    ERROR(cudaErrorMemoryAllocation, "out of memory")                                            \
    ERROR(cudaErrorInitializationError, "initialization error")                                  \
    ERROR(cudaErrorCudartUnloading, "driver shutting down")                                      \
    ERROR(cudaErrorProfilerDisabled, "profiler disabled")                                        \
    ERROR(cudaErrorProfilerNotInitialized, "profiler not initialized")                           \
    ERROR(cudaErrorProfilerAlreadyStarted, "profiler already started")                           \
    ERROR(cudaErrorProfilerAlreadyStopped, "profiler already stopped")                           \
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration")                                \
    ERROR(cudaErrorInvalidPitchValue, "invalid pitch value")                                     \
    ERROR(cudaErrorInvalidSymbol, "invalid symbol")                                              \
    ERROR(cudaErrorInvalidHostPointer, "invalid host pointer")                                   \
    ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer")                               \
    ERROR(cudaErrorInvalidTexture, "invalid texture")                                            \
    ERROR(cudaErrorInvalidTextureBinding, "invalid texture binding")                             \
    ERROR(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor")                       \
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")                  \
    ERROR(cudaErrorAddressOfConstant, "address of constant")                                     \
    ERROR(cudaErrorTextureFetchFailed, "texture fetch failed")                                   \
    ERROR(cudaErrorTextureNotBound, "texture not bound")                                         \
    ERROR(cudaErrorSynchronizationError, "synchronization error")                                \
    ERROR(cudaErrorInvalidFilterSetting, "invalid filter setting")                               \
    ERROR(cudaErrorInvalidNormSetting, "invalid norm setting")                                   \
    ERROR(cudaErrorMixedDeviceExecution, "mixed device execution")                               \
    ERROR(cudaErrorNotYetImplemented, "not yet implemented")                                     \
    ERROR(cudaErrorMemoryValueTooLarge, "memory value too large")                                \
    ERROR(cudaErrorStubLibrary, "stub library")                                                  \
    ERROR(cudaErrorInsufficientDriver,                                                           \
          "CUDA driver version is insufficient for CUDA runtime version")                        \
    ERROR(cudaErrorCallRequiresNewerDriver, "call requires newer driver")                        \
    ERROR(cudaErrorInvalidSurface, "invalid surface")                                            \
    ERROR(cudaErrorDuplicateVariableName, "duplicate variable name")                             \
    ERROR(cudaErrorDuplicateTextureName, "duplicate texture name")                               \
    ERROR(cudaErrorDuplicateSurfaceName, "duplicate surface name")                               \
    ERROR(cudaErrorDevicesUnavailable, "devices unavailable")                                    \
    ERROR(cudaErrorIncompatibleDriverContext, "incompatible driver context")                     \
    ERROR(cudaErrorMissingConfiguration, "missing configuration")                                \
    ERROR(cudaErrorPriorLaunchFailure, "prior launch failure")                                   \
    ERROR(cudaErrorLaunchMaxDepthExceeded, "launch max depth exceeded")                          \
    ERROR(cudaErrorLaunchFileScopedTex, "launch file scoped tex")                                \
    ERROR(cudaErrorLaunchFileScopedSurf, "launch file scoped surf")                              \
    ERROR(cudaErrorSyncDepthExceeded, "sync depth exceeded")                                     \
    ERROR(cudaErrorLaunchPendingCountExceeded, "launch pending count exceeded")                  \
    ERROR(cudaErrorInvalidDeviceFunction, "invalid device function")                             \
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected")                               \
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal")                                      \
    ERROR(cudaErrorDeviceNotLicensed, "device not licensed")                                     \
    ERROR(cudaErrorSoftwareValidityNotEstablished, "software validity not established")          \
    ERROR(cudaErrorStartupFailure, "startup failure")                                            \
    ERROR(cudaErrorInvalidKernelImage, "invalid kernel image")                                   \
    ERROR(cudaErrorDeviceUninitialized, "invalid device context")                                \
    ERROR(cudaErrorMapBufferObjectFailed, "map buffer object failed")                            \
    ERROR(cudaErrorUnmapBufferObjectFailed, "unmap buffer object failed")                        \
    ERROR(cudaErrorArrayIsMapped, "array is mapped")                                             \
    ERROR(cudaErrorAlreadyMapped, "already mapped")                                              \
    ERROR(cudaErrorNoKernelImageForDevice, "no kernel image for device")                         \
    ERROR(cudaErrorAlreadyAcquired, "already acquired")                                          \
    ERROR(cudaErrorNotMapped, "not mapped")                                                      \
    ERROR(cudaErrorNotMappedAsArray, "not mapped as array")                                      \
    ERROR(cudaErrorNotMappedAsPointer, "not mapped as pointer")                                  \
    ERROR(cudaErrorECCUncorrectable, "eccuncorrectable")                                         \
    ERROR(cudaErrorUnsupportedLimit, "unsupported limit")                                        \
    ERROR(cudaErrorDeviceAlreadyInUse, "device already in use")                                  \
    ERROR(cudaErrorPeerAccessUnsupported,                                                        \
          "peer access is not supported between these two devices")                              \
    ERROR(cudaErrorInvalidPtx, "invalid ptx")                                                    \
    ERROR(cudaErrorInvalidGraphicsContext, "invalid graphics context")                           \
    ERROR(cudaErrorNvlinkUncorrectable, "nvlink uncorrectable")                                  \
    ERROR(cudaErrorJitCompilerNotFound, "jit compiler not found")                                \
    ERROR(cudaErrorUnsupportedPtxVersion, "unsupported ptx version")                             \
    ERROR(cudaErrorJitCompilationDisabled, "jit compilation disabled")                           \
    ERROR(cudaErrorUnsupportedExecAffinity, "unsupported exec affinity")                         \
    ERROR(cudaErrorUnsupportedDevSideSync, "unsupported dev side sync")                          \
    ERROR(cudaErrorContained, "contained")                                                       \
    ERROR(cudaErrorInvalidSource, "invalid source")                                              \
    ERROR(cudaErrorFileNotFound, "file not found")                                               \
    ERROR(cudaErrorSharedObjectSymbolNotFound, "shared object symbol not found")                 \
    ERROR(cudaErrorSharedObjectInitFailed, "shared object init failed")                          \
    ERROR(cudaErrorOperatingSystem, "operating system")                                          \
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle")                             \
    ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state")       \
    ERROR(cudaErrorLossyQuery, "lossy query")                                                    \
    ERROR(cudaErrorSymbolNotFound, "symbol not found")                                           \
    ERROR(cudaErrorNotReady, "device not ready")                                                 \
    ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered")                   \
    ERROR(cudaErrorLaunchOutOfResources, "launch out of resources")                              \
    ERROR(cudaErrorLaunchTimeout, "launch timeout")                                              \
    ERROR(cudaErrorLaunchIncompatibleTexturing, "launch incompatible texturing")                 \
    ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled")                   \
    ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled")                     \
    ERROR(cudaErrorSetOnActiveProcess, "set on active process")                                  \
    ERROR(cudaErrorContextIsDestroyed, "context is destroyed")                                   \
    ERROR(cudaErrorAssert, "assert")                                                             \
    ERROR(cudaErrorTooManyPeers, "too many peers")                                               \
    ERROR(cudaErrorHostMemoryAlreadyRegistered,                                                  \
          "part or all of the requested memory range is already mapped")                         \
    ERROR(cudaErrorHostMemoryNotRegistered,                                                      \
          "pointer does not correspond to a registered memory region")                           \
    ERROR(cudaErrorHardwareStackError, "hardware stack error")                                   \
    ERROR(cudaErrorIllegalInstruction, "illegal instruction")                                    \
    ERROR(cudaErrorMisalignedAddress, "misaligned address")                                      \
    ERROR(cudaErrorInvalidAddressSpace, "invalid address space")                                 \
    ERROR(cudaErrorInvalidPc, "invalid pc")                                                      \
    ERROR(cudaErrorLaunchFailure, "unspecified launch failure")                                  \
    ERROR(cudaErrorCooperativeLaunchTooLarge, "cooperative launch too large")                    \
    ERROR(cudaErrorTensorMemoryLeak, "tensor memory leak")                                       \
    ERROR(cudaErrorNotPermitted, "operation not permitted")                                      \
    ERROR(cudaErrorNotSupported, "operation not supported")                                      \
    ERROR(cudaErrorSystemNotReady, "system not ready")                                           \
    ERROR(cudaErrorSystemDriverMismatch, "system driver mismatch")                               \
    ERROR(cudaErrorCompatNotSupportedOnDevice, "compat not supported on device")                 \
    ERROR(cudaErrorMpsConnectionFailed, "mps connection failed")                                 \
    ERROR(cudaErrorMpsRpcFailure, "mps rpc failure")                                             \
    ERROR(cudaErrorMpsServerNotReady, "mps server not ready")                                    \
    ERROR(cudaErrorMpsMaxClientsReached, "mps max clients reached")                              \
    ERROR(cudaErrorMpsMaxConnectionsReached, "mps max connections reached")                      \
    ERROR(cudaErrorMpsClientTerminated, "mps client terminated")                                 \
    ERROR(cudaErrorCdpNotSupported, "cdp not supported")                                         \
    ERROR(cudaErrorCdpVersionMismatch, "cdp version mismatch")                                   \
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing") \
    ERROR(cudaErrorStreamCaptureInvalidated,                                                     \
          "operation failed due to a previous error during capture")                             \
    ERROR(cudaErrorStreamCaptureMerge, "stream capture merge")                                   \
    ERROR(cudaErrorStreamCaptureUnmatched, "stream capture unmatched")                           \
    ERROR(cudaErrorStreamCaptureUnjoined, "stream capture unjoined")                             \
    ERROR(cudaErrorStreamCaptureIsolation, "stream capture isolation")                           \
    ERROR(cudaErrorStreamCaptureImplicit,                                                        \
          "operation would make the legacy stream depend on a capturing blocking stream")        \
    ERROR(cudaErrorCapturedEvent, "captured event")                                              \
    ERROR(cudaErrorStreamCaptureWrongThread, "stream capture wrong thread")                      \
    ERROR(cudaErrorTimeout, "timeout")                                                           \
    ERROR(cudaErrorGraphExecUpdateFailure, "graph exec update failure")                          \
    ERROR(cudaErrorExternalDevice, "external device")                                            \
    ERROR(cudaErrorInvalidClusterSize, "invalid cluster size")                                   \
    ERROR(cudaErrorFunctionNotLoaded, "function not loaded")                                     \
    ERROR(cudaErrorInvalidResourceType, "invalid resource type")                                 \
    ERROR(cudaErrorInvalidResourceConfiguration, "invalid resource configuration")               \
    ERROR(cudaErrorUnknown, "unknown error")                                                     \
    ERROR(cudaErrorApiFailureBase, "api failure base")

struct error_text {
    int value;
    const char *name, *text;
};

static const struct error_text error_texts[] = {
#define ERROR(name, text) {name, #name, text},
    ERRORS
#undef ERROR
};

static const struct error_text *find(cudaError_t error)
{
    for (size_t i = 0; i < sizeof error_texts / sizeof *error_texts; i++) {
        if (error_texts[i].value == (int)error) {
            return &error_texts[i];
        }
    }
    return NULL;
}

const char *cudaGetErrorName(cudaError_t error)
{
    process_note_use();
    const struct error_text *found = find(error);
    return found != NULL ? found->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    process_note_use();
    const struct error_text *found = find(error);
    return found != NULL ? found->text : "unrecognized error code";
}

const char *error_name(cudaError_t error)
{
    const struct error_text *found = find(error);
    return found != NULL ? found->name : NULL;
}

const char *error_text(cudaError_t error)
{
    const struct error_text *found = find(error);
    return found != NULL ? found->text : NULL;
}

bool error_by_name(const char *name, cudaError_t *error)
{
    for (size_t i = 0; i < sizeof error_texts / sizeof *error_texts; i++) {
        if (strcmp(error_texts[i].name, name) == 0) {
            *error = (cudaError_t)error_texts[i].value;
            return true;
        }
    }
    return false;
}
