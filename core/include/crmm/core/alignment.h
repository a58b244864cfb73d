/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CORE_ALIGNMENT_H
#define CRMM_CORE_ALIGNMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/attributes.h>
#include <crmm/core/status.h>

CRMM_BEGIN_DECLS

/** Bytes to which every device resource aligns at least; what CUDA promises of its allocations. */
#define CRMM_DEVICE_ALIGNMENT 256

/** Bytes to which every host resource aligns at least: that of max_align_t. */
#define CRMM_HOST_ALIGNMENT 16

#ifdef CRMM_NO_INLINE
CRMM_API bool crmm_is_pow2(size_t value);
CRMM_API bool crmm_is_supported_alignment(size_t alignment);
CRMM_API bool crmm_is_supported_base_resource_alignment(size_t alignment);
CRMM_API size_t crmm_align_up(size_t value, size_t alignment);
CRMM_API size_t crmm_align_down(size_t value, size_t alignment);
CRMM_API bool crmm_is_aligned(size_t value, size_t alignment);
CRMM_API bool crmm_is_pointer_aligned(const void *ptr, size_t alignment);
#else

/**
 * Whether exactly one bit is set.
 *
 * @param value any number; 0 is no power of two, 1 is
 */
CRMM_API CRMM_INLINE bool crmm_is_pow2(size_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/**
 * Whether an allocation may ask for this alignment at all.
 *
 * @param alignment in bytes
 * @return true for powers of two; a resource may still refuse one that is larger than it gives
 */
CRMM_API CRMM_INLINE bool crmm_is_supported_alignment(size_t alignment)
{
    return crmm_is_pow2(alignment);
}

/**
 * Whether the resources that ask CUDA directly give this alignment.
 *
 * @param alignment in bytes
 * @return true for powers of two up to CRMM_DEVICE_ALIGNMENT
 */
CRMM_API CRMM_INLINE bool crmm_is_supported_base_resource_alignment(size_t alignment)
{
    return crmm_is_pow2(alignment) && alignment <= CRMM_DEVICE_ALIGNMENT;
}

/**
 * The smallest multiple of `alignment` that is at least `value`.
 *
 * @param value     any number
 * @param alignment a power of two
 * @return the multiple, or 0 where it does not fit size_t or `alignment` is no power of two; use
 *         crmm_align_up_checked() where `value` may come from outside
 */
CRMM_API CRMM_INLINE size_t crmm_align_up(size_t value, size_t alignment)
{
    return !crmm_is_pow2(alignment) || value > SIZE_MAX - (alignment - 1)
               ? 0
               : (value + (alignment - 1)) & ~(alignment - 1);
}

/**
 * The largest multiple of `alignment` that is at most `value`.
 *
 * @param value     any number
 * @param alignment a power of two
 * @return the multiple; 0 where `alignment` is no power of two
 */
CRMM_API CRMM_INLINE size_t crmm_align_down(size_t value, size_t alignment)
{
    return crmm_is_pow2(alignment) ? value & ~(alignment - 1) : 0;
}

/**
 * Whether `value` is a multiple of `alignment`.
 *
 * @param value     any number
 * @param alignment a power of two
 * @return false where `alignment` is no power of two
 */
CRMM_API CRMM_INLINE bool crmm_is_aligned(size_t value, size_t alignment)
{
    return crmm_is_pow2(alignment) && (value & (alignment - 1)) == 0;
}

/**
 * Whether an address is a multiple of `alignment`.
 *
 * @param ptr       any address; NULL is aligned to everything
 * @param alignment a power of two
 * @return false where `alignment` is no power of two
 */
CRMM_API CRMM_INLINE bool crmm_is_pointer_aligned(const void *ptr, size_t alignment)
{
    return crmm_is_aligned((size_t)(uintptr_t)ptr, alignment);
}

#endif

/**
 * The smallest multiple of `alignment` that is at least `value`, with an error where there is none.
 *
 * @param value     any number
 * @param alignment a power of two
 * @param result    [out] the multiple; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `result` is NULL, or `alignment` is no power of two
 * @retval CRMM_ERROR_OUT_OF_MEMORY    the multiple does not fit size_t
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_align_up_checked(size_t value, size_t alignment,
                                                          size_t *result);

CRMM_END_DECLS

#endif
