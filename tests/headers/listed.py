#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every file that should be in one of the build's lists is in it.

usage: listed.py SOURCE_DIR [--without=ADAPTOR]... FILE...

The FILEs are the headers as they are included (crmm/...) and the test files (tests/...). A file
that was written but listed nowhere is neither compiled nor installed nor run, and nobody notices. The
tests of an ADAPTOR that is not in this build are not listed.
"""
import glob
import os
import re
import sys

from tap import Tap


def main():
    root, *rest = sys.argv[1:]
    without = [word[len('--without='):] for word in rest if word.startswith('--without=')]
    listed = [word for word in rest if not word.startswith('--without=')]
    os.chdir(root)
    tap = Tap()
    on_disk = []
    for path in glob.glob('*/include/**/*.h', recursive=True):
        on_disk.append(path.split('/include/', 1)[1])
    for path in glob.glob('*/include/**/*.h.in', recursive=True):
        on_disk.append(path.split('/include/', 1)[1][:-len('.in')])
    on_disk += glob.glob('tests/*/test_*.c') + glob.glob('tests/*/program_*.c')
    on_disk += glob.glob('tests/support/*.c')
    # These have lists of their own.
    on_disk = [path for path in on_disk if not path.startswith('tests/tools/')]
    for name in without:
        tests = re.compile(rf'tests/adaptors/(test|program)_([a-z_]*_)?{name}_[a-z_]*\.c')
        on_disk = [path for path in on_disk if not tests.fullmatch(path)]
    for path in sorted(set(on_disk)):
        tap.check(path in listed, f'{path} is listed')
    for path in sorted(set(listed) - set(on_disk)):
        tap.check(False, f'{path} is listed but not there')
    tap.finish()


main()
