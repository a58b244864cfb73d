/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that fail because a test wants them to, and attributes that say what a test wants. */
#include "emulated.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RULES 64
#define MAX_OVERRIDES 64
#define MAX_TEXT 256

struct rule {
    bool any;
    enum fn fn;
    unsigned long long seen;
    unsigned long long first, count; /* calls that fail, from 1; count 0: all from then on */
    unsigned per_thousand;           /* or a random share */
    cudaError_t error;
};

struct override {
    int device; /* -1: all */
    int attr;
    int value;
};

static struct rule rules[MAX_RULES];
static size_t rule_count;
static struct override overrides[MAX_OVERRIDES];
static size_t override_count;

static bool fires(struct rule *rule)
{
    rule->seen++;
    if (rule->per_thousand != 0) {
        return choice(1000) < rule->per_thousand;
    }
    return rule->seen >= rule->first &&
           (rule->count == 0 || rule->seen - rule->first < rule->count);
}

cudaError_t fault_check(enum fn fn)
{
    cudaError_t err = cudaSuccess;
    for (size_t i = 0; i < rule_count; i++) {
        if ((rules[i].any || rules[i].fn == fn) && fires(&rules[i]) && err == cudaSuccess) {
            err = rules[i].error;
        }
    }
    return err;
}

enum fn function_by_name(const char *name)
{
    int fn = 0;
    while (fn < FN_COUNT && strcmp(function_name((enum fn)fn), name) != 0) {
        fn++;
    }
    return (enum fn)fn;
}

bool fault_add(const char *name, unsigned long long first, unsigned long long count,
               unsigned per_thousand, cudaError_t error)
{
    struct rule rule = {.any = name == NULL || strcmp(name, "*") == 0,
                        .first = first == 0 ? 1 : first,
                        .count = count,
                        .per_thousand = per_thousand,
                        .error = error};
    if (!rule.any) {
        rule.fn = function_by_name(name);
    }
    if (rule.fn == FN_COUNT || rule_count == MAX_RULES) {
        return false;
    }
    rules[rule_count++] = rule;
    return true;
}

void fault_clear(void)
{
    rule_count = 0;
}

static bool read_number(const char *text, unsigned long long *value)
{
    char *end;
    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0';
}

/* By name or number; not success, which a misspelt name must not turn into. */
static bool read_error(const char *text, cudaError_t *error)
{
    unsigned long long number;
    if (!error_by_name(text, error)) {
        if (!read_number(text, &number) || number > INT_MAX) {
            return false;
        }
        *error = (cudaError_t)number;
    }
    return *error != cudaSuccess;
}

static bool load_share(const char *name, const char *share, cudaError_t error)
{
    unsigned long long per_thousand;
    if (!read_number(share, &per_thousand) || per_thousand > 1000) {
        return false;
    }
    if (per_thousand == 0) { /* for fault_add that would be every call */
        return strcmp(name, "*") == 0 || function_by_name(name) != FN_COUNT;
    }
    return fault_add(name, 1, 0, (unsigned)per_thousand, error);
}

/* FUNCTION:ERROR, FUNCTION:ERROR:FIRST, FUNCTION:ERROR:FIRST:COUNT or FUNCTION:ERROR:%SHARE. */
static bool load_one(char *text)
{
    char *save;
    const char *name = strtok_r(text, ":", &save);
    const char *error_text_given = strtok_r(NULL, ":", &save);
    const char *first = strtok_r(NULL, ":", &save);
    const char *count = strtok_r(NULL, ":", &save);
    cudaError_t error;
    if (name == NULL || error_text_given == NULL || !read_error(error_text_given, &error)) {
        return false;
    }
    if (first != NULL && *first == '%') {
        return count == NULL && load_share(name, first + 1, error);
    }
    unsigned long long from = 1, calls = first == NULL ? 0 : 1;
    if ((first != NULL && !read_number(first, &from)) ||
        (count != NULL && !read_number(count, &calls))) {
        return false;
    }
    return fault_add(name, from, calls, 0, error);
}

void fault_load(const char *text)
{
    while (text != NULL && *text != '\0') {
        char one[MAX_TEXT];
        size_t length = strcspn(text, ";,");
        const bool fits = length < sizeof one;
        if (fits) {
            memcpy(one, text, length);
            one[length] = '\0';
        }
        if (!fits || !load_one(one)) {
            violation("configuration", "CUDART_EMULATED_FAULTS: cannot read a rule");
        }
        text += length + (text[length] != '\0');
    }
}

bool override_find(int device, int attr, int *value)
{
    for (size_t i = override_count; i-- > 0;) {
        const struct override *o = &overrides[i];
        if (o->attr == attr && (o->device == -1 || o->device == device)) {
            *value = o->value;
            return true;
        }
    }
    return false;
}

bool override_add(int device, int attr, int value)
{
    if (override_count == MAX_OVERRIDES) {
        return false;
    }
    overrides[override_count++] = (struct override){device, attr, value};
    return true;
}

/* ATTRIBUTE=VALUE or DEVICE:ATTRIBUTE=VALUE, by number, separated by ; or , */
void override_load(const char *text)
{
    while (text != NULL && *text != '\0') {
        char *end;
        long device = -1;
        long attr = strtol(text, &end, 10);
        if (*end == ':') {
            device = attr;
            attr = strtol(end + 1, &end, 10);
        }
        if (*end != '=') {
            violation("configuration", "CUDART_EMULATED_ATTRIBUTES: cannot read a rule");
            return;
        }
        override_add((int)device, (int)attr, (int)strtol(end + 1, &end, 10));
        text = end + (*end != '\0');
    }
}

void override_clear(void)
{
    override_count = 0;
}
