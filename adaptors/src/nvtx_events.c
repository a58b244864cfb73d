/* SPDX-License-Identifier: Apache-2.0 */
#include "nvtx_events.h"

#include <pthread.h>

#include <nvtx3/nvToolsExt.h>
#if CRMM_PRIV_HAVE_NVTX_MEM
#include <nvtx3/nvToolsExtMem.h>
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static nvtxDomainHandle_t domain; /* NULL, NVTX's own, where there is no tool */

static void create_domain(void)
{
    domain = nvtxDomainCreateA("crmm");
}

static nvtxDomainHandle_t our_domain(void)
{
    (void)pthread_once(&once, create_domain);
    return domain;
}

void crmm_priv_nvtx_push(const char *name, size_t bytes)
{
    nvtxEventAttributes_t attributes = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
        .payload = {.ullValue = bytes},
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message = {.ascii = name},
    };
    (void)nvtxDomainRangePushEx(our_domain(), &attributes);
}

void crmm_priv_nvtx_pop(void)
{
    (void)nvtxDomainRangePop(our_domain());
}

#if CRMM_PRIV_HAVE_NVTX_MEM

/* Which ranges the upstream cuts its blocks from is not known here, so the heap is the whole
 * address space. */
void crmm_priv_nvtx_add_block(const void *ptr, size_t bytes)
{
    nvtxMemVirtualRangeDesc_t range = {.size = bytes, .ptr = ptr};
    nvtxMemRegionsRegisterBatch_t batch = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(batch),
        .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
        .heap = NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE,
        .regionCount = 1,
        .regionDescElementSize = sizeof(range),
        .regionDescElements = &range,
    };
    nvtxMemRegionsRegister(our_domain(), &batch);
}

void crmm_priv_nvtx_remove_block(const void *ptr)
{
    nvtxMemRegionRef_t reference = {.pointer = ptr};
    nvtxMemRegionsUnregisterBatch_t batch = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(batch),
        .refType = NVTX_MEM_REGION_REF_TYPE_POINTER,
        .refCount = 1,
        .refElementSize = sizeof(reference),
        .refElements = &reference,
    };
    nvtxMemRegionsUnregister(our_domain(), &batch);
}

#else

void crmm_priv_nvtx_add_block(const void *ptr, size_t bytes)
{
    (void)ptr;
    (void)bytes;
}

void crmm_priv_nvtx_remove_block(const void *ptr)
{
    (void)ptr;
}

#endif
