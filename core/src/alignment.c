/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/alignment.h>

#include <crmm/internal/fail.h>

_Static_assert(CRMM_HOST_ALIGNMENT == _Alignof(max_align_t), "the value is part of the ABI");

/* ---- exported twins of the inline functions ---- */

extern inline bool crmm_is_pow2(size_t value);
extern inline bool crmm_is_supported_alignment(size_t alignment);
extern inline bool crmm_is_supported_base_resource_alignment(size_t alignment);
extern inline size_t crmm_align_up(size_t value, size_t alignment);
extern inline size_t crmm_align_down(size_t value, size_t alignment);
extern inline bool crmm_is_aligned(size_t value, size_t alignment);
extern inline bool crmm_is_pointer_aligned(const void *ptr, size_t alignment);

crmm_status crmm_align_up_checked(size_t value, size_t alignment, size_t *result)
{
    if (result == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_align_up_checked: result is NULL");
    }
    if (!crmm_is_pow2(alignment)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "crmm_align_up_checked: alignment %zu is not a power of two", alignment);
    }
    if (value > SIZE_MAX - (alignment - 1)) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0,
                    "crmm_align_up_checked: %zu rounded up to a multiple of %zu does not fit",
                    value, alignment);
    }
    *result = crmm_align_up(value, alignment);
    return CRMM_SUCCESS;
}
