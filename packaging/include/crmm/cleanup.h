/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CLEANUP_H
#define CRMM_CLEANUP_H

/*
 * Variables that end themselves where their scope ends, by return, break or goto; for compilers
 * with the attribute `cleanup` (GCC and Clang). Not part of crmm.h: include it where it is wanted.
 *
 *     CRMM_AUTO(crmm_device_buffer) buffer = {0};
 *     CRMM_AUTO_RESOURCE pool = NULL;
 *
 * The variable must be initialised where it is declared: its end reads it. Variables end in the
 * reverse order of their declarations, so a resource that others use is best declared first, though
 * whatever uses one retains it. What leaves the scope is moved out first
 * (crmm_device_buffer_move()), or taken with CRMM_TAKE_RESOURCE(). longjmp() ends nothing.
 */

#include <crmm/core/resource.h>

#if !defined(__GNUC__)
#error "crmm/cleanup.h needs a compiler with the attribute cleanup, such as GCC or Clang"
#endif

/**
 * A variable of a class that has a finish function, those made by CRMM_DEVICE_UVECTOR_DEFINE() and
 * CRMM_DEVICE_SCALAR_DEFINE() included.
 */
#define CRMM_AUTO(class_name) __attribute__((cleanup(class_name##_finish))) class_name

/** A variable that holds a reference to a resource, or NULL. */
#define CRMM_AUTO_RESOURCE __attribute__((cleanup(crmm_resource_release))) crmm_resource *

/** Take the reference out of a variable, which is NULL afterwards: for what is returned. */
#define CRMM_TAKE_RESOURCE(variable) crmm_priv_take_resource(&(variable))

static inline __attribute__((unused)) crmm_resource *crmm_priv_take_resource(
    crmm_resource **variable)
{
    crmm_resource *taken = *variable;
    *variable = NULL;
    return taken;
}

#endif
