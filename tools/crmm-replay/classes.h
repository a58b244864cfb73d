/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_CLASSES_H
#define CRMM_REPLAY_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/resource.h>

typedef enum parameter_kind {
    PARAMETER_SIZE,  /* bytes, with a unit or without */
    PARAMETER_COUNT, /* a plain number */
    PARAMETER_FLAG,  /* 0 or 1 */
} parameter_kind;

/* A fixed parameter of a class' create function, or a member of its options struct. */
typedef struct class_parameter {
    const char *name;
    parameter_kind kind;
    bool required; /* fixed parameters are; options have a default */
    const char *summary;
} class_parameter;

/* What a class stands on when nothing is to its right. */
typedef enum class_upstream {
    UPSTREAM_NONE, /* a leaf: nothing may be to its right */
    UPSTREAM_CUDA, /* cuda */
    UPSTREAM_OWN,  /* the class' own default: create is given NULL */
} class_upstream;

enum { CLASS_MOST_PARAMETERS = 8 };

/*
 * A class that a SPEC can name. `create` gets one value for each parameter, in their order, 0 where
 * none was given, and an upstream that it retains if it keeps it.
 */
typedef struct resource_class {
    const char *name;
    const char *summary;
    class_upstream upstream;
    bool compared;     /* without --resource, where it stands alone with its defaults */
    bool locks_memory; /* of the host: not compared where a trace would need much of that */
    class_parameter parameters[CLASS_MOST_PARAMETERS]; /* up to the first without a name */
    crmm_status (*create)(const uint64_t *values, crmm_resource *upstream, crmm_resource **out);
} resource_class;

/* The classes of this build. */
extern const resource_class classes[];
extern const size_t class_count;

/* NULL if there is none of that name in this build. */
const resource_class *class_find(const char *name);

/* The index of a parameter, or -1. */
int class_find_parameter(const resource_class *of, const char *name);

#endif
