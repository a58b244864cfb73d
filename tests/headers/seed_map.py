#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/seed-map.md: every function in it is declared, and every test in it exists, in a file
that names the function.

usage: seed_map.py SOURCE_DIR

A row is `| member | `function` | suite, case |`.
"""
import glob
import os
import re
import sys

from tap import Tap


def read(paths):
    texts = []
    for path in paths:
        with open(path, encoding='utf-8') as file:
            texts.append(file.read())
    return '\n'.join(texts)


def main():
    os.chdir(sys.argv[1])
    tap = Tap()
    headers = read(glob.glob('*/include/**/*.h', recursive=True))
    # What comments mention is not declared.
    headers = re.sub(r'/\*.*?\*/', '', headers, flags=re.DOTALL)
    declared = set(re.findall(r'\b(crmm_\w+)\s*\(', headers))
    declared |= set(re.findall(r'^\}\s*(crmm_\w+);', headers, flags=re.MULTILINE))
    tests = {}
    for path in glob.glob('tests/*/test_*.c'):
        text = read([path])
        for name in re.findall(r'^Test\((\w+), (\w+)', text, flags=re.MULTILINE):
            tests[name] = text

    rows = 0
    for line in read(['docs/seed-map.md']).splitlines():
        if not line.startswith('| ') or line.startswith(('| member |', '| --- |')):
            continue
        rows += 1
        row = re.fullmatch(r'\| (.+) \| `(crmm_\w+)` \| (\w+), (\w+) \|', line)
        if row is None:
            tap.check(False, f'a row reads as it should: {line}')
            continue
        member, function, suite, case = row.groups()
        tap.check(function in declared, f'{member}: {function} is declared')
        tap.check((suite, case) in tests, f'{member}: {suite}, {case} exists')
        used = re.search(rf'\b{function}\b', tests.get((suite, case), '')) is not None
        tap.check(used, f'{member}: {function} is used beside {suite}, {case}')
    tap.check(rows > 50, 'the table is there')
    tap.finish()


main()
