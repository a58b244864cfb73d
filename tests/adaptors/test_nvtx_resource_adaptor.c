/* SPDX-License-Identifier: Apache-2.0 */
/* What a tool is told. The tool is in this file: NVTX asks it for functions when it is first used.
 */
#include <crmm/adaptors/nvtx_resource_adaptor.h>

#include <stdint.h>
#include <stdlib.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#if CRMM_PRIV_HAVE_NVTX_MEM
#include <nvtx3/nvToolsExtMem.h>
#endif

#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

/* ---- the tool ---- */

typedef struct told {
    size_t loads;  /* NVTX has asked for functions */
    size_t ranges; /* pushed */
    size_t depth;  /* not popped yet */
    size_t deepest;
    char name[32];
    uint64_t payload;
    size_t registered;
    size_t unregistered;
    const void *ptr;
    size_t bytes;

    size_t deallocations; /* that the mock had seen when a block was unregistered */
} told;

static told tool;
static mock_resource upstream;

static nvtxDomainHandle_t create_domain(const char *name)
{
    expect_text(name, "crmm");
    return (nvtxDomainHandle_t)(uintptr_t)0x1000;
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    cr_assert(domain == (nvtxDomainHandle_t)(uintptr_t)0x1000);
    cr_assert(attributes->messageType == NVTX_MESSAGE_TYPE_ASCII);
    cr_assert(attributes->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
    (void)strncpy(tool.name, attributes->message.ascii, sizeof(tool.name) - 1);
    tool.payload = attributes->payload.ullValue;
    tool.ranges++;
    tool.depth++;
    tool.deepest = tool.depth > tool.deepest ? tool.depth : tool.deepest;
    return (int)tool.depth - 1;
}

static int pop(nvtxDomainHandle_t domain)
{
    cr_assert(domain == (nvtxDomainHandle_t)(uintptr_t)0x1000);
    cr_assert(tool.depth > 0);
    tool.depth--;
    return (int)tool.depth;
}

static int load(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;

    tool.loads++;
    cr_assert(callbacks != NULL &&
              callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 1);
    cr_assert(size > NVTX_CBID_CORE2_DomainCreateA);
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}

/* What NVTX looks for in a program that has its tool built in. */
extern NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr;
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = load;

#if CRMM_PRIV_HAVE_NVTX_MEM
static void register_regions(nvtxDomainHandle_t domain, const nvtxMemRegionsRegisterBatch_t *batch)
{
    const nvtxMemVirtualRangeDesc_t *range = batch->regionDescElements;

    cr_assert(domain == (nvtxDomainHandle_t)(uintptr_t)0x1000);
    cr_assert(batch->extCompatID == NVTX_EXT_COMPATID_MEM && batch->structSize == sizeof(*batch));
    cr_assert(batch->regionType == NVTX_MEM_TYPE_VIRTUAL_ADDRESS);
    cr_assert(batch->heap == NULL && batch->regionCount == 1);
    cr_assert(batch->regionDescElementSize == sizeof(*range));
    tool.registered++;
    tool.ptr = range->ptr;
    tool.bytes = range->size;
}

static void unregister_regions(nvtxDomainHandle_t domain,
                               const nvtxMemRegionsUnregisterBatch_t *batch)
{
    cr_assert(domain == (nvtxDomainHandle_t)(uintptr_t)0x1000);
    cr_assert(batch->refType == NVTX_MEM_REGION_REF_TYPE_POINTER && batch->refCount == 1);
    cr_assert(batch->refElementSize == sizeof(*batch->refElements));
    tool.unregistered++;
    tool.ptr = batch->refElements[0].pointer;
    tool.deallocations = upstream.deallocations;
}

static int load_extension(nvtxExtModuleInfo_t *info)
{
    cr_assert(info->moduleId == NVTX_EXT_MODULEID_MEM);
    intptr_t *slots = info->segments[0].functionSlots;
    slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = (intptr_t)register_regions;
    slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = (intptr_t)unregister_regions;
    return 1;
}

extern NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr;
NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr = load_extension;
#endif

static void expect_registered(size_t blocks, const void *ptr, size_t bytes)
{
    if (CRMM_PRIV_HAVE_NVTX_MEM) {
        expect_equal(tool.registered, blocks);
        cr_assert(tool.ptr == ptr);
        expect_equal(tool.bytes, bytes);
    }
}

static void expect_unregistered(size_t blocks, const void *ptr)
{
    if (CRMM_PRIV_HAVE_NVTX_MEM) {
        expect_equal(tool.unregistered, blocks);
        cr_assert(tool.ptr == ptr);
        expect_equal(upstream.deallocations, tool.deallocations + 1); /* before it was given back */
    }
}

static void expect_range(size_t ranges, const char *name, size_t payload)
{
    expect_equal(tool.ranges, ranges);
    expect_text(tool.name, name);
    expect_equal(tool.payload, payload);
    expect_equal(tool.depth, 0);
    expect_equal(tool.deepest, 1);
}

/* ---- the tests ---- */

static void begin(void)
{
    cr_assert(unsetenv("CRMM_NVTX") == 0 && unsetenv("NVTX_INJECTION64_PATH") == 0);
    mock_resource_init(&upstream, ALL);
}

TestSuite(nvtx_resource_adaptor, .init = begin);

static crmm_resource *make(crmm_resource *over)
{
    crmm_resource *made = NULL;
    expect_success(crmm_nvtx_resource_adaptor_create(
        over, CRMM_OPTIONS(crmm_nvtx_resource_adaptor, .mode = CRMM_NVTX_ON), &made));
    return made;
}

/* User report 75: ranges could only be switched when compiling, with another library's switch. */
Test(nvtx_resource_adaptor, is_not_there_unless_it_is_asked_for)
{
    crmm_resource *mr = NULL;
    void *ptr = NULL;

    expect_success(crmm_nvtx_resource_adaptor_create(&upstream.base, NULL, &mr));
    cr_assert(mr == &upstream.base);
    expect_success(crmm_allocate(mr, NULL, 100, 16, &ptr));
    crmm_deallocate(mr, NULL, ptr, 100, 16);
    crmm_resource_release(&mr);
    cr_assert(setenv("CRMM_NVTX", "0", 1) == 0);
    expect_success(crmm_nvtx_resource_adaptor_create(&upstream.base, NULL, &mr));
    cr_assert(mr == &upstream.base);
    crmm_resource_release(&mr);
    cr_assert(setenv("CRMM_NVTX", "1", 1) == 0);
    expect_success(crmm_nvtx_resource_adaptor_create(
        &upstream.base, CRMM_OPTIONS(crmm_nvtx_resource_adaptor, .mode = CRMM_NVTX_OFF), &mr));
    cr_assert(mr == &upstream.base);
    crmm_resource_release(&mr);
    expect_equal(upstream.base.reserved[0], 1);
    expect_equal(tool.loads, 0);
    expect_equal(tool.ranges + tool.registered, 0);

    expect_success(crmm_nvtx_resource_adaptor_create(&upstream.base, NULL, &mr));
    expect_text(crmm_resource_name(mr), "nvtx_resource_adaptor");
    crmm_resource_release(&mr);
}

Test(nvtx_resource_adaptor, looks_like_its_upstream_and_holds_it)
{
    bool destroyed = false;
    crmm_resource *dropped = &upstream.base;
    char text[128];

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    upstream.destroyed = &destroyed;
    crmm_resource_bind_device(&upstream.base, 2);
    crmm_resource *mr = make(&upstream.base);
    crmm_resource *other = make(&upstream.base);
    crmm_resource_release(&dropped);
    expect_equal(crmm_resource_properties(mr), CRMM_HOST_ACCESSIBLE);
    expect_equal(crmm_resource_device(mr), 2);
    cr_assert(crmm_resource_upstream(mr) == &upstream.base);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "nvtx_resource_adaptor over mock_resource");
    cr_assert(crmm_resource_is_equal(mr, mr) && !crmm_resource_is_equal(mr, other));
    crmm_resource_release(&other);
    cr_assert(!destroyed);
    crmm_resource_release(&mr);
    cr_assert(destroyed);
}

/* User report 74: a tool was told the rounded size. */
Test(nvtx_resource_adaptor, tells_ranges_and_blocks_as_they_were_asked_for)
{
    crmm_resource *mr = make(&upstream.base);
    crmm_stream stream = (crmm_stream)(uintptr_t)0x40;
    void *a = NULL;
    void *b = NULL;

    expect_success(crmm_allocate(mr, stream, 1001, 256, &a));
    expect_range(1, "allocate", 1001);
    expect_registered(1, a, 1001);
    cr_assert(upstream.last_allocate.stream == stream && !upstream.last_allocate.sync);
    expect_equal(upstream.last_allocate.bytes, 1001);
    expect_equal(upstream.last_allocate.alignment, 256);
    expect_success(crmm_allocate_sync(mr, 7, 16, &b));
    expect_range(2, "allocate_sync", 7);
    expect_registered(2, b, 7);
    cr_assert(upstream.last_allocate.sync);
    crmm_deallocate(mr, stream, a, 1001, 256);
    expect_range(3, "deallocate", 1001);
    expect_unregistered(1, a);
    cr_assert(upstream.last_deallocate.stream == stream && upstream.last_deallocate.ptr == a);
    expect_equal(upstream.last_deallocate.bytes, 1001);
    expect_equal(upstream.last_deallocate.alignment, 256);
    crmm_deallocate_sync(mr, b, 7, 16);
    expect_range(4, "deallocate_sync", 7);
    expect_unregistered(2, b);
    cr_assert(upstream.last_deallocate.sync);
    expect_equal(tool.loads, 1);
    crmm_resource_release(&mr);
}

Test(nvtx_resource_adaptor, a_failure_is_a_range_without_a_block)
{
    crmm_resource *mr = make(&upstream.base);
    void *ptr = &mr;

    upstream.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_failure(crmm_allocate(mr, NULL, 64, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "the mock was told to fail");
    expect_range(1, "allocate", 64);
    upstream.fail_with = CRMM_SUCCESS;
    upstream.give_null = true;
    expect_status(crmm_allocate_sync(mr, 65, 16, &ptr), CRMM_ERROR_BAD_ALLOC);
    expect_range(2, "allocate_sync", 65);
    expect_equal(tool.registered, 0);
    cr_assert(ptr == &mr);
    crmm_resource_release(&mr);
}

/* User report 75: each layer of a stack made a range of its own. */
Test(nvtx_resource_adaptor, a_stack_makes_one_range_a_call)
{
    crmm_resource *stack[5] = {&upstream.base};
    void *ptr = NULL;

    for (int i = 1; i < 5; i++) {
        stack[i] = make(stack[i - 1]);
    }
    expect_success(crmm_allocate(stack[4], NULL, 300, 16, &ptr));
    expect_range(1, "allocate", 300);
    expect_registered(1, ptr, 300);
    crmm_deallocate(stack[4], NULL, ptr, 300, 16);
    expect_range(2, "deallocate", 300);
    expect_unregistered(1, ptr);

    /* A lower one that is used by itself is the outermost. */
    expect_success(crmm_allocate_sync(stack[2], 400, 16, &ptr));
    expect_range(3, "allocate_sync", 400);
    crmm_deallocate_sync(stack[2], ptr, 400, 16);
    expect_equal(tool.ranges, 4);
    for (int i = 4; i > 0; i--) {
        crmm_resource_release(&stack[i]);
    }
}

/* ---- a resource that uses another one when it is asked ---- */

typedef struct busy {
    struct crmm_resource base;
    crmm_resource *other;
    void *ptr; /* what it has of it */
} busy;

static crmm_status busy_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                      void **ptr)
{
    busy *self = (busy *)resource;
    crmm_resource *other = self->other;

    self->other = NULL;
    if (other != NULL) {
        crmm_deallocate_sync(other, self->ptr, 24, 8);
    }
    return crmm_allocate_sync(&upstream.base, bytes, alignment, ptr);
}

static void busy_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    crmm_deallocate_sync(&upstream.base, ptr, bytes, alignment);
}

static void busy_destroy(crmm_resource *resource)
{
    (void)resource;
}

static const crmm_resource_ops busy_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = busy_allocate_sync,
    .deallocate_sync = busy_deallocate_sync,
    .destroy = busy_destroy,
};

/* As a callback does that frees something when memory is short: the block must not stay. */
Test(nvtx_resource_adaptor, a_call_within_a_call_is_told_as_well)
{
    busy below = {.other = NULL};
    void *ptr = NULL;

    crmm_resource_init(&below.base, &busy_ops, "busy", CRMM_HOST_ACCESSIBLE);
    crmm_resource *mr = make(&below.base);
    expect_success(crmm_allocate_sync(mr, 24, 8, &below.ptr));
    below.other = mr;
    expect_success(crmm_allocate_sync(mr, 48, 8, &ptr));
    expect_equal(tool.ranges, 3);
    expect_equal(tool.deepest, 2);
    expect_equal(tool.depth, 0);
    expect_equal(tool.unregistered, CRMM_PRIV_HAVE_NVTX_MEM ? 1 : 0);
    expect_registered(2, ptr, 48);
    crmm_deallocate_sync(mr, ptr, 48, 8);
    crmm_resource_release(&mr);
}

Test(nvtx_resource_adaptor, what_never_reaches_it_is_not_told)
{
    crmm_resource *mr = make(&upstream.base);
    void *ptr = &mr;

    expect_success(crmm_allocate(mr, NULL, 0, 16, &ptr));
    crmm_deallocate(mr, NULL, NULL, 16, 16);
    expect_status(crmm_allocate(mr, NULL, SIZE_MAX, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(tool.ranges, 0);
    crmm_resource_release(&mr);
}

Test(nvtx_resource_adaptor, frees_by_address_go_to_the_upstream)
{
    crmm_resource *mr = make(&upstream.base);
    void *ptr = NULL;

    misuse_recorder_start();
    expect_success(crmm_allocate(mr, NULL, 64, 16, &ptr));
    expect_misuse(crmm_deallocate_ptr(mr, NULL, ptr), CRMM_MISUSE_UNSUPPORTED,
                  "crmm_deallocate_ptr: mock_resource keeps no sizes");
    expect_range(2, "deallocate", 0);
    /* It could not know that the upstream would leave the block alone. */
    expect_equal(tool.unregistered, CRMM_PRIV_HAVE_NVTX_MEM ? 1 : 0);
    expect_equal(tool.registered, CRMM_PRIV_HAVE_NVTX_MEM ? 1 : 0);
    crmm_deallocate(mr, NULL, ptr, 64, 16);
    crmm_resource_release(&mr);
}

Test(nvtx_resource_adaptor, refuses_bad_arguments_of_create)
{
    crmm_resource *mr = NULL;
    crmm_nvtx_resource_adaptor_options options;

    crmm_nvtx_resource_adaptor_options_init(&options);
    expect_equal(options.struct_size, sizeof(options));
    expect_equal(options.mode, CRMM_NVTX_FROM_ENVIRONMENT);
    for (size_t mode = CRMM_NVTX_FROM_ENVIRONMENT; mode <= CRMM_NVTX_OFF; mode++) {
        options.mode = mode;
        expect_failure(crmm_nvtx_resource_adaptor_create(NULL, &options, &mr),
                       CRMM_ERROR_INVALID_ARGUMENT, "nvtx_resource_adaptor: upstream is NULL");
        expect_failure(crmm_nvtx_resource_adaptor_create(&upstream.base, &options, NULL),
                       CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    }
    options.mode = 3;
    expect_failure(crmm_nvtx_resource_adaptor_create(&upstream.base, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "options->mode is 3, none of CRMM_NVTX_FROM");
    options.struct_size = 3;
    expect_failure(crmm_nvtx_resource_adaptor_create(&upstream.base, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "struct_size is 3");
    cr_assert(mr == NULL);
    expect_equal(upstream.base.reserved[0], 1);
}
