/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CONTAINERS_TYPED_H
#define CRMM_CONTAINERS_TYPED_H

#include <crmm/containers/device_scalar.h>
#include <crmm/containers/device_uvector.h>

/*
 * Containers that know the C type of their elements
 *
 * CRMM_DEVICE_UVECTOR_DEFINE(floats, float) at file scope, without a semicolon, defines
 *
 *  - the struct `floats`, with the one member `untyped`, a crmm_device_uvector
 *  - functions `floats_<member>` that do what `crmm_device_uvector_<member>` does, with the type in
 *    place of void and without sizes: `floats_init(&v, count, stream, mr)`,
 *    `floats_set_element(&v, index, &value, stream)`, `float *first = floats_data(&v)`, and so on,
 *    those for const vectors give pointers to const: `floats_cdata`, `floats_cbegin`, `floats_cend`
 *
 * so that a wrong type does not compile. CRMM_DEVICE_SCALAR_DEFINE(number, double) does the same
 * for a crmm_device_scalar. (Compilers before GCC 14 and Clang 16 only warn about pointers to
 * another type; there the macros turn the warning into an error, for the rest of the file. Two
 * integer types that differ in sign alone are still let through.) The functions are static; those
 * that are not used cost nothing. They need no inline counterpart in the library, and bindings use
 * the untyped functions.
 *
 * The element type is a complete object type that may be copied byte by byte. Memory is aligned to
 * CRMM_DEVICE_ALIGNMENT, or to the type's own alignment where that is more; what the resource does
 * not give is CRMM_ERROR_UNSUPPORTED.
 */

#ifdef __cplusplus
#define CRMM_PRIV_ALIGNOF(type) alignof(type)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define CRMM_PRIV_ALIGNOF(type) _Alignof(type)
#else
#define CRMM_PRIV_ALIGNOF(type) __alignof__(type)
#endif

#if defined(__GNUC__) && !defined(__cplusplus)
#define CRMM_PRIV_STRICT_POINTERS _Pragma("GCC diagnostic error \"-Wincompatible-pointer-types\"")
#else
#define CRMM_PRIV_STRICT_POINTERS
#endif

/* The alignment that a container of `type` asks for; 256 is CRMM_DEVICE_ALIGNMENT. */
#define CRMM_PRIV_ALIGNMENT(type) \
    (CRMM_PRIV_ALIGNOF(type) > (size_t)256 ? CRMM_PRIV_ALIGNOF(type) : (size_t)256)

/* The untyped object in a typed one, or NULL for NULL. */
#define CRMM_PRIV_UNTYPED(object) ((object) != NULL ? &(object)->untyped : NULL)

#define CRMM_PRIV_TYPED CRMM_MAYBE_UNUSED static inline

/** Define `name`, a crmm_device_uvector whose elements are of `type`; see above. */
#define CRMM_DEVICE_UVECTOR_DEFINE(name, type)                                                     \
    CRMM_PRIV_STRICT_POINTERS                                                                      \
    typedef struct name {                                                                          \
        crmm_device_uvector untyped;                                                               \
    } name;                                                                                        \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_init(name *vector, size_t count,             \
                                                           crmm_stream stream, crmm_resource *mr)  \
    {                                                                                              \
        return crmm_device_uvector_init_aligned(CRMM_PRIV_UNTYPED(vector), count, sizeof(type),    \
                                                CRMM_PRIV_ALIGNMENT(type), stream, mr);            \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_init_clone(                                  \
        name *vector, const name *other, crmm_stream stream, crmm_resource *mr)                    \
    {                                                                                              \
        return crmm_device_uvector_init_clone(CRMM_PRIV_UNTYPED(vector), CRMM_PRIV_UNTYPED(other), \
                                              stream, mr);                                         \
    }                                                                                              \
    CRMM_PRIV_TYPED void name##_move(name *destination, name *source)                              \
    {                                                                                              \
        crmm_device_uvector_move(CRMM_PRIV_UNTYPED(destination), CRMM_PRIV_UNTYPED(source));       \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_set_stream(name *vector, crmm_stream stream) \
    {                                                                                              \
        return crmm_device_uvector_set_stream(CRMM_PRIV_UNTYPED(vector), stream);                  \
    }                                                                                              \
    CRMM_PRIV_TYPED void name##_set_stream_unordered(name *vector, crmm_stream stream)             \
    {                                                                                              \
        crmm_device_uvector_set_stream_unordered(CRMM_PRIV_UNTYPED(vector), stream);               \
    }                                                                                              \
    CRMM_PRIV_TYPED void name##_finish(name *vector)                                               \
    {                                                                                              \
        crmm_device_uvector_finish(CRMM_PRIV_UNTYPED(vector));                                     \
    }                                                                                              \
    CRMM_PRIV_TYPED type *name##_data(name *vector)                                                \
    {                                                                                              \
        return (type *)crmm_device_uvector_data(CRMM_PRIV_UNTYPED(vector));                        \
    }                                                                                              \
    CRMM_PRIV_TYPED const type *name##_cdata(const name *vector)                                   \
    {                                                                                              \
        return (const type *)crmm_device_uvector_data(CRMM_PRIV_UNTYPED(vector));                  \
    }                                                                                              \
    CRMM_PRIV_TYPED size_t name##_size(const name *vector)                                         \
    {                                                                                              \
        return crmm_device_uvector_size(CRMM_PRIV_UNTYPED(vector));                                \
    }                                                                                              \
    CRMM_PRIV_TYPED crmm_stream name##_stream(const name *vector)                                  \
    {                                                                                              \
        return crmm_device_uvector_stream(CRMM_PRIV_UNTYPED(vector));                              \
    }                                                                                              \
    CRMM_PRIV_TYPED crmm_device_async_resource_ref name##_memory_resource(const name *vector)      \
    {                                                                                              \
        return crmm_device_uvector_memory_resource(CRMM_PRIV_UNTYPED(vector));                     \
    }                                                                                              \
    CRMM_PRIV_TYPED void name##_release(name *vector, crmm_device_buffer *buffer)                  \
    {                                                                                              \
        crmm_device_uvector_release(CRMM_PRIV_UNTYPED(vector), buffer);                            \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_reserve(name *vector, size_t new_capacity,   \
                                                              crmm_stream stream)                  \
    {                                                                                              \
        return crmm_device_uvector_reserve(CRMM_PRIV_UNTYPED(vector), new_capacity, stream);       \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_resize(name *vector, size_t new_count,       \
                                                             crmm_stream stream)                   \
    {                                                                                              \
        return crmm_device_uvector_resize(CRMM_PRIV_UNTYPED(vector), new_count, stream);           \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_shrink_to_fit(name *vector,                  \
                                                                    crmm_stream stream)            \
    {                                                                                              \
        return crmm_device_uvector_shrink_to_fit(CRMM_PRIV_UNTYPED(vector), stream);               \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_set_element_async(                           \
        name *vector, size_t index, const type *value, crmm_stream stream)                         \
    {                                                                                              \
        return crmm_device_uvector_set_element_async(CRMM_PRIV_UNTYPED(vector), index, value,      \
                                                     stream);                                      \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_set_element(                                 \
        name *vector, size_t index, const type *value, crmm_stream stream)                         \
    {                                                                                              \
        return crmm_device_uvector_set_element(CRMM_PRIV_UNTYPED(vector), index, value, stream);   \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_set_element_to_zero_async(                   \
        name *vector, size_t index, crmm_stream stream)                                            \
    {                                                                                              \
        return crmm_device_uvector_set_element_to_zero_async(CRMM_PRIV_UNTYPED(vector), index,     \
                                                             stream);                              \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_element(const name *vector, size_t index,    \
                                                              crmm_stream stream, type *value)     \
    {                                                                                              \
        return crmm_device_uvector_element(CRMM_PRIV_UNTYPED(vector), index, stream, value);       \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_front_element(                               \
        const name *vector, crmm_stream stream, type *value)                                       \
    {                                                                                              \
        return crmm_device_uvector_front_element(CRMM_PRIV_UNTYPED(vector), stream, value);        \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_back_element(                                \
        const name *vector, crmm_stream stream, type *value)                                       \
    {                                                                                              \
        return crmm_device_uvector_back_element(CRMM_PRIV_UNTYPED(vector), stream, value);         \
    }                                                                                              \
    CRMM_PRIV_TYPED type *name##_element_ptr(name *vector, size_t index)                           \
    {                                                                                              \
        return (type *)crmm_device_uvector_element_ptr(CRMM_PRIV_UNTYPED(vector), index);          \
    }                                                                                              \
    CRMM_PRIV_TYPED type *name##_begin(name *vector)                                               \
    {                                                                                              \
        return (type *)crmm_device_uvector_begin(CRMM_PRIV_UNTYPED(vector));                       \
    }                                                                                              \
    CRMM_PRIV_TYPED type *name##_end(name *vector)                                                 \
    {                                                                                              \
        return (type *)crmm_device_uvector_end(CRMM_PRIV_UNTYPED(vector));                         \
    }                                                                                              \
    CRMM_PRIV_TYPED const type *name##_cbegin(const name *vector)                                  \
    {                                                                                              \
        return (const type *)crmm_device_uvector_begin(CRMM_PRIV_UNTYPED(vector));                 \
    }                                                                                              \
    CRMM_PRIV_TYPED const type *name##_cend(const name *vector)                                    \
    {                                                                                              \
        return (const type *)crmm_device_uvector_end(CRMM_PRIV_UNTYPED(vector));                   \
    }                                                                                              \
    CRMM_PRIV_TYPED int64_t name##_ssize(const name *vector)                                       \
    {                                                                                              \
        return crmm_device_uvector_ssize(CRMM_PRIV_UNTYPED(vector));                               \
    }                                                                                              \
    CRMM_PRIV_TYPED size_t name##_capacity(const name *vector)                                     \
    {                                                                                              \
        return crmm_device_uvector_capacity(CRMM_PRIV_UNTYPED(vector));                            \
    }                                                                                              \
    CRMM_PRIV_TYPED bool name##_is_empty(const name *vector)                                       \
    {                                                                                              \
        return crmm_device_uvector_is_empty(CRMM_PRIV_UNTYPED(vector));                            \
    }

/** Define `name`, a crmm_device_scalar whose value is of `type`; see above. */
#define CRMM_DEVICE_SCALAR_DEFINE(name, type)                                                      \
    CRMM_PRIV_STRICT_POINTERS                                                                      \
    typedef struct name {                                                                          \
        crmm_device_scalar untyped;                                                                \
    } name;                                                                                        \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_init(name *scalar, const type *value,        \
                                                           crmm_stream stream, crmm_resource *mr)  \
    {                                                                                              \
        return crmm_device_scalar_init_aligned(CRMM_PRIV_UNTYPED(scalar), sizeof(type),            \
                                               CRMM_PRIV_ALIGNMENT(type), value, stream, mr);      \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_init_uninitialized(                          \
        name *scalar, crmm_stream stream, crmm_resource *mr)                                       \
    {                                                                                              \
        return crmm_device_scalar_init_uninitialized(CRMM_PRIV_UNTYPED(scalar), sizeof(type),      \
                                                     CRMM_PRIV_ALIGNMENT(type), stream, mr);       \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_init_clone(                                  \
        name *scalar, const name *other, crmm_stream stream, crmm_resource *mr)                    \
    {                                                                                              \
        return crmm_device_scalar_init_clone(CRMM_PRIV_UNTYPED(scalar), CRMM_PRIV_UNTYPED(other),  \
                                             stream, mr);                                          \
    }                                                                                              \
    CRMM_PRIV_TYPED void name##_move(name *destination, name *source)                              \
    {                                                                                              \
        crmm_device_scalar_move(CRMM_PRIV_UNTYPED(destination), CRMM_PRIV_UNTYPED(source));        \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_set_stream(name *scalar, crmm_stream stream) \
    {                                                                                              \
        return crmm_device_scalar_set_stream(CRMM_PRIV_UNTYPED(scalar), stream);                   \
    }                                                                                              \
    CRMM_PRIV_TYPED void name##_set_stream_unordered(name *scalar, crmm_stream stream)             \
    {                                                                                              \
        crmm_device_scalar_set_stream_unordered(CRMM_PRIV_UNTYPED(scalar), stream);                \
    }                                                                                              \
    CRMM_PRIV_TYPED void name##_finish(name *scalar)                                               \
    {                                                                                              \
        crmm_device_scalar_finish(CRMM_PRIV_UNTYPED(scalar));                                      \
    }                                                                                              \
    CRMM_PRIV_TYPED type *name##_data(name *scalar)                                                \
    {                                                                                              \
        return (type *)crmm_device_scalar_data(CRMM_PRIV_UNTYPED(scalar));                         \
    }                                                                                              \
    CRMM_PRIV_TYPED const type *name##_cdata(const name *scalar)                                   \
    {                                                                                              \
        return (const type *)crmm_device_scalar_data(CRMM_PRIV_UNTYPED(scalar));                   \
    }                                                                                              \
    CRMM_PRIV_TYPED size_t name##_size(const name *scalar)                                         \
    {                                                                                              \
        return crmm_device_scalar_size(CRMM_PRIV_UNTYPED(scalar));                                 \
    }                                                                                              \
    CRMM_PRIV_TYPED crmm_stream name##_stream(const name *scalar)                                  \
    {                                                                                              \
        return crmm_device_scalar_stream(CRMM_PRIV_UNTYPED(scalar));                               \
    }                                                                                              \
    CRMM_PRIV_TYPED crmm_device_async_resource_ref name##_memory_resource(const name *scalar)      \
    {                                                                                              \
        return crmm_device_scalar_memory_resource(CRMM_PRIV_UNTYPED(scalar));                      \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_value(const name *scalar,                    \
                                                            crmm_stream stream, type *value)       \
    {                                                                                              \
        return crmm_device_scalar_value(CRMM_PRIV_UNTYPED(scalar), stream, value);                 \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_set_value(name *scalar, const type *value,   \
                                                                crmm_stream stream)                \
    {                                                                                              \
        return crmm_device_scalar_set_value(CRMM_PRIV_UNTYPED(scalar), value, stream);             \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_set_value_async(                             \
        name *scalar, const type *value, crmm_stream stream)                                       \
    {                                                                                              \
        return crmm_device_scalar_set_value_async(CRMM_PRIV_UNTYPED(scalar), value, stream);       \
    }                                                                                              \
    CRMM_PRIV_TYPED CRMM_NODISCARD crmm_status name##_set_value_to_zero_async(name *scalar,        \
                                                                              crmm_stream stream)  \
    {                                                                                              \
        return crmm_device_scalar_set_value_to_zero_async(CRMM_PRIV_UNTYPED(scalar), stream);      \
    }

#endif
