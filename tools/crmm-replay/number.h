/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_NUMBER_H
#define CRMM_REPLAY_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What strtoull() and its like let pass (signs, spaces, a rest, an overflow) is refused here. */

/* Nothing but decimal digits that fit. */
bool number_decimal(const char *text, uint64_t *out);

/* Decimal digits, or "0x" and hexadecimal ones. */
bool number_address(const char *text, uint64_t *out);

/* Bytes: decimal digits, alone or followed by KiB, MiB, GiB or TiB. */
bool number_size(const char *text, size_t *out);

/* Room for any text of number_print_size(). */
enum { NUMBER_SIZE_TEXT = 32 };

/* Bytes as a person reads them: "512 B", "45.13 GiB". Returns `text`. */
const char *number_print_size(size_t bytes, char text[NUMBER_SIZE_TEXT]);

#endif
