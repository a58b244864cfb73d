/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CORE_OPTIONS_H
#define CRMM_CORE_OPTIONS_H

/*
 * Options structs
 *
 *  - `struct_size` comes first and holds sizeof the struct as the caller saw it. CRMM_OPTIONS sets
 *    it; where a variable is filled, crmm_<class>_options_init() does.
 *  - Zero is the default of every other member, and a NULL pointer means "all defaults". Where 0
 *    is a value that users need, it has a name of its own.
 *  - Members are appended, never changed. A caller built against older headers gets the defaults
 *    of what it does not know. A caller built against newer ones that sets a member this library
 *    does not know gets CRMM_ERROR_UNSUPPORTED.
 *  - The struct need only live until the call returns.
 */

/** As a release threshold: keep nothing. (0, as everywhere, is the default.) */
#define CRMM_RELEASE_ALL 18446744073709551615u

#ifndef __cplusplus
/**
 * A pointer to a filled options struct, in C:
 * `CRMM_OPTIONS(crmm_limiting_resource_adaptor, .alignment = 512)` is a
 * `const crmm_limiting_resource_adaptor_options *` that lives to the end of the enclosing block.
 * It takes at least one member; NULL stands for none.
 */
#define CRMM_OPTIONS(class_name, ...) \
    (&(const class_name##_options){.struct_size = sizeof(class_name##_options), __VA_ARGS__})
#endif

#endif
