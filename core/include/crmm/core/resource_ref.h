/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CORE_RESOURCE_REF_H
#define CRMM_CORE_RESOURCE_REF_H

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/*
 * Typed references
 *
 * Six distinct one-pointer struct types, so that an interface can demand properties when the
 * program is compiled. A reference does not own its resource. It is made, and checked, once by
 * crmm_to_<type>(); from then on it widens to every type that demands less, which cannot fail.
 *
 * Each crmm_to_<type>() takes
 *  - resource: the resource to refer to; it must outlive the reference
 *  - ref:      [out] the reference; untouched on failure
 * and fails with
 *  - CRMM_ERROR_INVALID_ARGUMENT: `ref` is NULL
 *  - CRMM_ERROR_LOGIC:            `resource` is NULL
 *  - CRMM_ERROR_PROPERTY:         the resource lacks a property that the type demands
 *
 * Thread-safety: safe.
 */

/** A resource whose memory devices may touch. */
typedef struct crmm_device_resource_ref {
    crmm_resource *resource; /**< borrowed */
} crmm_device_resource_ref;

/** A stream-ordered resource whose memory devices may touch. */
typedef struct crmm_device_async_resource_ref {
    crmm_resource *resource; /**< borrowed */
} crmm_device_async_resource_ref;

/** A resource whose memory the host may touch. */
typedef struct crmm_host_resource_ref {
    crmm_resource *resource; /**< borrowed */
} crmm_host_resource_ref;

/** A stream-ordered resource whose memory the host may touch. */
typedef struct crmm_host_async_resource_ref {
    crmm_resource *resource; /**< borrowed */
} crmm_host_async_resource_ref;

/** A resource whose memory the host and devices may touch. */
typedef struct crmm_host_device_resource_ref {
    crmm_resource *resource; /**< borrowed */
} crmm_host_device_resource_ref;

/** A stream-ordered resource whose memory the host and devices may touch. */
typedef struct crmm_host_device_async_resource_ref {
    crmm_resource *resource; /**< borrowed */
} crmm_host_device_async_resource_ref;

/** Checked: demands CRMM_DEVICE_ACCESSIBLE. */
CRMM_API CRMM_NODISCARD crmm_status crmm_to_device_resource_ref(crmm_resource *resource,
                                                                crmm_device_resource_ref *ref);
/** Checked: demands CRMM_DEVICE_ACCESSIBLE and CRMM_STREAM_ORDERED. */
CRMM_API CRMM_NODISCARD crmm_status
crmm_to_device_async_resource_ref(crmm_resource *resource, crmm_device_async_resource_ref *ref);
/** Checked: demands CRMM_HOST_ACCESSIBLE. */
CRMM_API CRMM_NODISCARD crmm_status crmm_to_host_resource_ref(crmm_resource *resource,
                                                              crmm_host_resource_ref *ref);
/** Checked: demands CRMM_HOST_ACCESSIBLE and CRMM_STREAM_ORDERED. */
CRMM_API CRMM_NODISCARD crmm_status
crmm_to_host_async_resource_ref(crmm_resource *resource, crmm_host_async_resource_ref *ref);
/** Checked: demands CRMM_HOST_ACCESSIBLE and CRMM_DEVICE_ACCESSIBLE. */
CRMM_API CRMM_NODISCARD crmm_status
crmm_to_host_device_resource_ref(crmm_resource *resource, crmm_host_device_resource_ref *ref);
/** Checked: demands all three properties. */
CRMM_API CRMM_NODISCARD crmm_status crmm_to_host_device_async_resource_ref(
    crmm_resource *resource, crmm_host_device_async_resource_ref *ref);

#ifdef CRMM_NO_INLINE
CRMM_API crmm_host_device_resource_ref
crmm_host_device_async_to_host_device(crmm_host_device_async_resource_ref ref);
CRMM_API crmm_device_async_resource_ref
crmm_host_device_async_to_device_async(crmm_host_device_async_resource_ref ref);
CRMM_API crmm_host_async_resource_ref
crmm_host_device_async_to_host_async(crmm_host_device_async_resource_ref ref);
CRMM_API crmm_device_resource_ref
crmm_host_device_async_to_device(crmm_host_device_async_resource_ref ref);
CRMM_API crmm_host_resource_ref
crmm_host_device_async_to_host(crmm_host_device_async_resource_ref ref);
CRMM_API crmm_device_resource_ref crmm_host_device_to_device(crmm_host_device_resource_ref ref);
CRMM_API crmm_host_resource_ref crmm_host_device_to_host(crmm_host_device_resource_ref ref);
CRMM_API crmm_device_resource_ref crmm_device_async_to_device(crmm_device_async_resource_ref ref);
CRMM_API crmm_host_resource_ref crmm_host_async_to_host(crmm_host_async_resource_ref ref);
#else

/** Widen; cannot fail. */
CRMM_API CRMM_INLINE crmm_host_device_resource_ref
crmm_host_device_async_to_host_device(crmm_host_device_async_resource_ref ref)
{
    crmm_host_device_resource_ref wide = {ref.resource};
    return wide;
}

/** Widen; cannot fail. */
CRMM_API CRMM_INLINE crmm_device_async_resource_ref
crmm_host_device_async_to_device_async(crmm_host_device_async_resource_ref ref)
{
    crmm_device_async_resource_ref wide = {ref.resource};
    return wide;
}

/** Widen; cannot fail. */
CRMM_API CRMM_INLINE crmm_host_async_resource_ref
crmm_host_device_async_to_host_async(crmm_host_device_async_resource_ref ref)
{
    crmm_host_async_resource_ref wide = {ref.resource};
    return wide;
}

/** Widen; cannot fail. */
CRMM_API CRMM_INLINE crmm_device_resource_ref
crmm_host_device_async_to_device(crmm_host_device_async_resource_ref ref)
{
    crmm_device_resource_ref wide = {ref.resource};
    return wide;
}

/** Widen; cannot fail. */
CRMM_API CRMM_INLINE crmm_host_resource_ref
crmm_host_device_async_to_host(crmm_host_device_async_resource_ref ref)
{
    crmm_host_resource_ref wide = {ref.resource};
    return wide;
}

/** Widen; cannot fail. */
CRMM_API CRMM_INLINE crmm_device_resource_ref
crmm_host_device_to_device(crmm_host_device_resource_ref ref)
{
    crmm_device_resource_ref wide = {ref.resource};
    return wide;
}

/** Widen; cannot fail. */
CRMM_API CRMM_INLINE crmm_host_resource_ref
crmm_host_device_to_host(crmm_host_device_resource_ref ref)
{
    crmm_host_resource_ref wide = {ref.resource};
    return wide;
}

/** Widen; cannot fail. */
CRMM_API CRMM_INLINE crmm_device_resource_ref
crmm_device_async_to_device(crmm_device_async_resource_ref ref)
{
    crmm_device_resource_ref wide = {ref.resource};
    return wide;
}

/** Widen; cannot fail. */
CRMM_API CRMM_INLINE crmm_host_resource_ref
crmm_host_async_to_host(crmm_host_async_resource_ref ref)
{
    crmm_host_resource_ref wide = {ref.resource};
    return wide;
}

#endif

CRMM_END_DECLS

#endif
