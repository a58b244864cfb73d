/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_RESOURCE_H
#define CRMM_INTERNAL_RESOURCE_H

#include <crmm/interfaces/resource.h>

/* Where the base of a resource keeps what is the library's own. */
enum {
    CRMM_PRIV_COUNT,      /* references; unused for immortal objects */
    CRMM_PRIV_PROPERTIES, /* crmm_properties, with CRMM_PRIV_IMMORTAL */
    CRMM_PRIV_DEVICE,     /* device + 1; 0 for none */
    CRMM_PRIV_NAME,       /* const char * */
    CRMM_PRIV_NEXT        /* the next one in quarantine */
};

/* Among the properties: retain and release do nothing. */
#define CRMM_PRIV_IMMORTAL ((uintptr_t)1 << 16)

/* Among the properties: it is stream-ordered, and an allocation that succeeds never gives NULL, and
 * one that fails leaves the pointer alone, so that crmm_allocate() has nothing to look at
 * afterwards. */
#define CRMM_PRIV_KEEPS_RULES ((uintptr_t)1 << 17)

/* Among the properties: the operations make the device current that they need, whichever is. */
#define CRMM_PRIV_ANY_DEVICE ((uintptr_t)1 << 18)

/* All that is no property. */
#define CRMM_PRIV_FLAGS (CRMM_PRIV_IMMORTAL | CRMM_PRIV_KEEPS_RULES | CRMM_PRIV_ANY_DEVICE)

/* Initialiser of the base of a shared immortal object in static storage. */
#define CRMM_PRIV_IMMORTAL_BASE(ops_, name_, properties_)                \
    {                                                                    \
        .ops = (ops_), .reserved = {                                     \
            [CRMM_PRIV_COUNT] = 1,                                       \
            [CRMM_PRIV_PROPERTIES] = (properties_) | CRMM_PRIV_IMMORTAL, \
            [CRMM_PRIV_NAME] = (uintptr_t)(name_)                        \
        }                                                                \
    }

/*
 * CRMM_ERROR_PROPERTY, described in the name of `who`, unless `resource` (not NULL) has all of
 * `required`.
 */
crmm_status crmm_priv_require_properties(const char *who, const crmm_resource *resource,
                                         crmm_properties required);

/*
 * Whether `resource` is of the class `ops`; if not, CRMM_ERROR_INVALID_ARGUMENT, described in the
 * name of the function `who`. NULL is of no class.
 */
crmm_status crmm_priv_require_class(const char *who, const crmm_resource *resource,
                                    const crmm_resource_ops *ops);

/* The same for functions that return a value: reports misuse and returns false. */
bool crmm_priv_check_class(const char *who, const crmm_resource *resource,
                           const crmm_resource_ops *ops);

/*
 * Append `" over "` and the description of `upstream` to a text that is `length` long so far, with
 * snprintf()'s rules; returns the new length.
 */
size_t crmm_priv_describe_over(const crmm_resource *upstream, char *text, size_t size,
                               size_t length);

#endif
