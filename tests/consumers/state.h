/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATE_H
#define STATE_H

/*
 * What a shared object does to the library's state, for a program to see whether it is the
 * program's state as well: it makes the managed resource device 0's, fails an allocation, and
 * misuses a resource once.
 */
void change_state(void);

#endif
