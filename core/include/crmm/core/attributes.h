/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CORE_ATTRIBUTES_H
#define CRMM_CORE_ATTRIBUTES_H

/*
 * Compiler attributes and linkage used by every public header.
 *
 * Public functions have default visibility in the static archives too, so that an executable and
 * the shared objects it is linked to share one set of library state even when both embed the
 * archives.
 */

#ifdef __cplusplus
#define CRMM_BEGIN_DECLS extern "C" {
#define CRMM_END_DECLS }
#else
#define CRMM_BEGIN_DECLS
#define CRMM_END_DECLS
#endif

#if defined(__GNUC__)
/** Marks a function as part of the public interface. */
#define CRMM_API __attribute__((visibility("default")))
/** The result must not be ignored. */
#define CRMM_NODISCARD __attribute__((warn_unused_result))
/** A function or variable that a program may leave unused. */
#define CRMM_MAYBE_UNUSED __attribute__((unused))
#else
#define CRMM_API
#define CRMM_NODISCARD
#define CRMM_MAYBE_UNUSED
#endif

/**
 * Prefix of the small functions that are defined in the headers.
 *
 * Each of them also exists as an exported function. With CRMM_NO_INLINE defined before the first
 * include the headers contain plain prototypes only, which is what a binding generator wants.
 */
#define CRMM_INLINE inline

#endif
