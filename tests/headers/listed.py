#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every file that should be in one of the build's lists is in it.

usage: listed.py SOURCE_DIR FILE...

The FILEs are the headers as they are included (crmm/...) and the test files (tests/...). A file
that was written but listed nowhere is neither compiled nor installed nor run, and nobody notices.
"""
import glob
import os
import sys

from tap import Tap


def main():
    root, *listed = sys.argv[1:]
    os.chdir(root)
    tap = Tap()
    on_disk = []
    for suffix in ('h', 'hpp'):
        for path in glob.glob(f'*/include/**/*.{suffix}', recursive=True):
            on_disk.append(path.split('/include/', 1)[1])
    for path in glob.glob('*/include/**/*.h.in', recursive=True):
        on_disk.append(path.split('/include/', 1)[1][:-len('.in')])
    on_disk += glob.glob('tests/*/test_*.c') + glob.glob('tests/*/program_*.c')
    on_disk += glob.glob('tests/support/*.c')
    # These have lists of their own.
    on_disk = [path for path in on_disk if not path.startswith('tests/tools/')]
    for path in sorted(set(on_disk)):
        tap.check(path in listed, f'{path} is listed')
    for path in sorted(set(listed) - set(on_disk)):
        tap.check(False, f'{path} is listed but not there')
    tap.finish()


main()
