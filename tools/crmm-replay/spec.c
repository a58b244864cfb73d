/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"

#include <stdlib.h>
#include <string.h>

#include "number.h"

/* ---- parsing ---- */

typedef struct parser {
    spec *out;
    const char *copy; /* of the whole SPEC, in which the texts are that are parsed */
    problem *why;
    spec_part *part;
    bool given[CLASS_MOST_PARAMETERS]; /* to `part` */
} parser;

static const char *expected(parameter_kind kind)
{
    switch (kind) {
    case PARAMETER_SIZE:
        return "bytes, such as 4096, 64MiB or 1GiB (KiB, MiB, GiB or TiB)";
    case PARAMETER_COUNT:
        return "a number";
    case PARAMETER_FLAG:
        return "0 or 1";
    case PARAMETER_TEXT:
        return "text without , and +";
    }
    return "";
}

static bool read_value(parameter_kind kind, const char *text, uint64_t *out)
{
    size_t size = 0;

    switch (kind) {
    case PARAMETER_SIZE:
        if (!number_size(text, &size)) {
            return false;
        }
        *out = size;
        return true;
    case PARAMETER_COUNT:
        return number_decimal(text, out);
    case PARAMETER_FLAG:
        return number_decimal(text, out) && *out <= 1;
    case PARAMETER_TEXT:
        *out = (uintptr_t)text;
        return text[0] != '\0';
    }
    return false;
}

/* One `option=value`. */
static bool parse_option(parser *state, char *text)
{
    const resource_class *of = state->part->of;
    char *value = text;
    const char *name = strsep(&value, "=");

    int index = class_find_parameter(of, name);
    if (index < 0) {
        return problem_set(state->why, "SPEC \"%s\": %s has no option \"%s\"; see --list",
                           state->out->text, of->name, name);
    }
    if (value == NULL) {
        return problem_set(state->why, "SPEC \"%s\": option %s of %s has no value; it takes %s",
                           state->out->text, name, of->name, expected(of->parameters[index].kind));
    }
    if (state->given[index]) {
        return problem_set(state->why, "SPEC \"%s\": option %s of %s is given twice",
                           state->out->text, name, of->name);
    }
    if (!read_value(of->parameters[index].kind, value, &state->part->values[index])) {
        return problem_set(state->why, "SPEC \"%s\": option %s of %s cannot be \"%s\"; it takes %s",
                           state->out->text, name, of->name, value,
                           expected(of->parameters[index].kind));
    }
    if (of->parameters[index].kind == PARAMETER_TEXT) {
        state->part->values[index] = (uintptr_t)(state->out->text + (value - state->copy));
    }
    state->given[index] = true;
    return true;
}

static bool check_required(const parser *state)
{
    const resource_class *of = state->part->of;

    for (int i = 0; i < CLASS_MOST_PARAMETERS && of->parameters[i].name != NULL; i++) {
        if (of->parameters[i].required && !state->given[i]) {
            return problem_set(state->why, "SPEC \"%s\": %s needs %s=..., which takes %s",
                               state->out->text, of->name, of->parameters[i].name,
                               expected(of->parameters[i].kind));
        }
    }
    return true;
}

/* One `class` or `class:option=value,...`. */
static bool parse_part(spec *out, const char *copy, char *text, problem *why)
{
    char *options = text;
    const char *name = strsep(&options, ":");

    if (out->part_count == SPEC_MOST_PARTS) {
        return problem_set(why, "SPEC \"%s\": more than %d parts", out->text, SPEC_MOST_PARTS);
    }
    parser state = {.out = out, .copy = copy, .why = why, .part = &out->parts[out->part_count]};
    *state.part = (spec_part){.of = class_find(name)};
    if (state.part->of == NULL) {
        return problem_set(why, "SPEC \"%s\": part %zu: no class \"%s\" in this build; see --list",
                           out->text, out->part_count + 1, name);
    }
    if (out->part_count > 0 && state.part[-1].of->upstream == UPSTREAM_NONE) {
        return problem_set(why, "SPEC \"%s\": %s takes no upstream, so %s cannot be to its right",
                           out->text, state.part[-1].of->name, name);
    }
    while (options != NULL) {
        if (!parse_option(&state, strsep(&options, ","))) {
            return false;
        }
    }
    if (!check_required(&state)) {
        return false;
    }
    out->part_count++;
    return true;
}

bool spec_parse(const char *text, spec *out, problem *why)
{
    char *copy = strdup(text);
    char *rest = copy;
    bool good = true;

    *out = (spec){.text = text};
    if (copy == NULL) {
        return problem_no_memory(why);
    }
    while (good && rest != NULL) {
        good = parse_part(out, copy, strsep(&rest, "+"), why);
    }
    free(copy);
    return good;
}

/* ---- building ---- */

/* What the rightmost part stands on; NULL where it needs nothing or has a default of its own. */
static crmm_status create_bottom(const spec *of, crmm_resource **out)
{
    *out = NULL;
    if (of->parts[of->part_count - 1].of->upstream != UPSTREAM_CUDA) {
        return CRMM_SUCCESS;
    }
    return class_find("cuda")->create(NULL, NULL, out);
}

crmm_status spec_create(const spec *of, crmm_resource **out)
{
    crmm_resource *top = NULL;
    crmm_status status = create_bottom(of, &top);

    for (size_t i = of->part_count; status == CRMM_SUCCESS && i-- > 0;) {
        crmm_resource *upstream = top;
        top = NULL;
        status = of->parts[i].of->create(of->parts[i].values, upstream, &top);
        crmm_resource_release(&upstream); /* the one above holds it */
    }
    if (status == CRMM_SUCCESS) {
        *out = top;
    }
    return status;
}
