#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the typed containers refuse a wrong element type when a program is compiled.

usage: typed.py STANDARD INCLUDE_DIR... -- COMPILER...

Without any warning flag, as a user's program may be compiled.
"""
import sys

from tap import Tap, compile_text

HEAD = '''#include <crmm/containers/typed.h>
struct point { float x, y; };
CRMM_DEVICE_UVECTOR_DEFINE(floats, float)
CRMM_DEVICE_UVECTOR_DEFINE(points, struct point)
CRMM_DEVICE_SCALAR_DEFINE(number, double)
crmm_status use(floats *v, points *p, number *n, float *f, double *d, struct point *q);
crmm_status use(floats *v, points *p, number *n, float *f, double *d, struct point *q)
{
    (void)v; (void)p; (void)n; (void)f; (void)d; (void)q;
    return CRMM_SUCCESS%s;
}
'''
GOOD = [
    'floats_set_element(v, 0, f, NULL)', 'floats_set_element_async(v, 0, f, NULL)',
    'floats_element(v, 0, NULL, f)', 'floats_front_element(v, NULL, f)',
    'floats_back_element(v, NULL, f)', 'points_set_element(p, 0, q, NULL)',
    'points_element(p, 0, NULL, q)', 'number_value(n, NULL, d)', 'number_set_value(n, d, NULL)',
    'number_set_value_async(n, d, NULL)', 'number_init(n, d, NULL, NULL)',
    'floats_init(v, 1, NULL, NULL)', 'floats_init_clone(v, v, NULL, NULL)',
    'floats_resize(v, 1, NULL)',
]
BAD = [
    'floats_set_element(v, 0, d, NULL)', 'floats_set_element_async(v, 0, q, NULL)',
    'floats_element(v, 0, NULL, d)', 'floats_front_element(v, NULL, d)',
    'floats_back_element(v, NULL, q)', 'points_set_element(p, 0, f, NULL)',
    'points_element(p, 0, NULL, f)', 'number_value(n, NULL, f)', 'number_set_value(n, f, NULL)',
    'number_set_value_async(n, q, NULL)', 'number_init(n, f, NULL, NULL)',
    'floats_init(p, 1, NULL, NULL)', 'floats_init_clone(v, p, NULL, NULL)',
    'floats_resize(n, 1, NULL)',
]


def main():
    standard, *rest = sys.argv[1:]
    at = rest.index('--')
    folders, compiler = rest[:at], rest[at + 1:]
    suffix = '.cpp' if '++' in standard else '.c'
    command = compiler + ['-std=' + standard, '-fsyntax-only']
    command += [arg for folder in folders for arg in ('-I', folder)]
    tap = Tap()
    for calls, expected in ((GOOD, True), (BAD, False)):
        for call in calls:
            text = HEAD % f' == {call} ? CRMM_SUCCESS : CRMM_ERROR_IO'
            good, output = compile_text(command, text, suffix)
            tap.check(good == expected,
                      f'{call} {"compiles" if expected else "does not compile"}', output)
    tap.finish()


main()
