/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/options.h>

#include <stdbool.h>
#include <string.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/options.h>

void crmm_priv_init_options(void *options, size_t size)
{
    if (options == NULL) {
        return;
    }
    memset(options, 0, size);
    memcpy(options, &size, sizeof(size));
}

/* No options struct comes near this; a larger size is a variable that was never set. */
enum { LARGEST_STRUCT = 4096 };

/* The first byte from `from` on that is not 0, or `to`. */
static size_t first_set_byte(const unsigned char *bytes, size_t from, size_t to)
{
    while (from < to && bytes[from] == 0) {
        from++;
    }
    return from;
}

crmm_status crmm_priv_load_options(const char *who, void *known, size_t known_size,
                                   const void *given)
{
    size_t given_size = known_size;

    if (given != NULL) {
        memcpy(&given_size, given, sizeof(given_size));
    }
    /* Members are words, so a size that is none of theirs was never set. */
    if (given_size < sizeof(size_t) || given_size % sizeof(size_t) != 0 ||
        given_size > LARGEST_STRUCT) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->struct_size is %zu; it must be the size of the options struct",
                    who, given_size);
    }

    if (given != NULL && given_size > known_size) {
        size_t set = first_set_byte(given, known_size, given_size);
        if (set < given_size) {
            return FAIL(CRMM_ERROR_UNSUPPORTED, 0,
                        "%s: the option at byte %zu is not known to this version of the library",
                        who, set - set % sizeof(size_t));
        }
        given_size = known_size;
    }

    crmm_priv_init_options(known, known_size);
    if (given != NULL) {
        memcpy((unsigned char *)known + sizeof(size_t),
               (const unsigned char *)given + sizeof(size_t), given_size - sizeof(size_t));
    }
    return CRMM_SUCCESS;
}
