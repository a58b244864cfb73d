/* SPDX-License-Identifier: Apache-2.0 */
/* The environment, and the random choices of a seed. */
#include "emulated.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_MEMORY (16 * GIB)

struct config config;
static uint64_t random_state;

size_t config_parse_size(const char *text, size_t fallback)
{
    if (text == NULL || *text == '\0') {
        return fallback;
    }
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    unsigned shift = 0;
    if (end == text) {
        return fallback;
    }
    if (strcmp(end, "KiB") == 0) {
        shift = 10;
    } else if (strcmp(end, "MiB") == 0) {
        shift = 20;
    } else if (strcmp(end, "GiB") == 0) {
        shift = 30;
    } else if (strcmp(end, "TiB") == 0) {
        shift = 40;
    } else if (*end != '\0' && strcmp(end, "B") != 0) {
        return fallback;
    }
    if (value > (SIZE_MAX >> 1) >> shift) {
        return fallback;
    }
    return (size_t)value << shift;
}

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    if (text == NULL || *text == '\0') {
        return fallback;
    }
    char *end;
    unsigned long long value = strtoull(text, &end, 0);
    return end == text || *end != '\0' ? fallback : value;
}

static bool flag(const char *name, bool fallback)
{
    return number(name, fallback ? 1 : 0) != 0;
}

void config_set_seed(uint64_t seed)
{
    config.seed = seed;
    random_state = seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
}

/* A number below the bound (splitmix64); the same sequence for the same seed. */
uint64_t choice(uint64_t bound)
{
    random_state += 0x9e3779b97f4a7c15u;
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return bound == 0 ? 0 : z % bound;
}

static size_t checked_alignment(uint64_t value)
{
    return value == 256 ? 256 : 512;
}

/* One size for all devices, or one for each, separated by commas; the last goes on. */
static void load_memory(const char *text)
{
    size_t memory = DEFAULT_MEMORY;
    for (int d = 0; d < MAX_DEVICES; d++) {
        if (text != NULL && *text != '\0') {
            char one[64] = "";
            size_t length = strcspn(text, ",");
            memcpy(one, text, length < sizeof one - 1 ? length : sizeof one - 1);
            memory = config_parse_size(one, DEFAULT_MEMORY);
            text += length + (text[length] != '\0');
        }
        config.memory[d] = memory;
    }
}

void config_defaults(void)
{
    uint64_t count = number("CUDART_EMULATED_DEVICES", 1);
    config.devices = count > MAX_DEVICES ? MAX_DEVICES : (int)count;
    load_memory(getenv("CUDART_EMULATED_MEMORY"));
    config_set_seed(number("CUDART_EMULATED_SEED", 0));
    config.alignment = checked_alignment(number("CUDART_EMULATED_ALIGNMENT", 512));
    config.driver_version = (int)number("CUDART_EMULATED_DRIVER_VERSION", 13000);
    config.reuse_handles = flag("CUDART_EMULATED_REUSE_HANDLES", false);
    config.checker = flag("CUDART_EMULATED_CHECKER", true);
    config.malloc_waits = flag("CUDART_EMULATED_MALLOC_WAITS", false);
    config.free_waits = flag("CUDART_EMULATED_FREE_WAITS", true);
    config.host_free_waits = flag("CUDART_EMULATED_HOST_FREE_WAITS", false);
    config.pageable_waits = flag("CUDART_EMULATED_PAGEABLE_WAITS", false);
    config.capture_queries_allowed = flag("CUDART_EMULATED_CAPTURE_QUERIES", false);
    config.host_thread_per_stream = flag("CUDART_EMULATED_HOST_THREADS", false);
    config.idle_queries = flag("CUDART_EMULATED_IDLE_QUERIES", false);
    config.pool_never_reuses = flag("CUDART_EMULATED_POOL_NEVER_REUSES", false);
    config.abort_on_violation = flag("CUDART_EMULATED_ABORT", false);
    config.pool_largest = config_parse_size(getenv("CUDART_EMULATED_POOL_LARGEST"), 0);
    config.queue_depth = (size_t)number("CUDART_EMULATED_QUEUE_DEPTH", 0);
}

void config_load(void)
{
    config.report = getenv("CUDART_EMULATED_REPORT");
    config_defaults();
    fault_load(getenv("CUDART_EMULATED_FAULTS"));
    override_load(getenv("CUDART_EMULATED_ATTRIBUTES"));
}
