#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each module sees the headers of itself and of the modules below it, and no others.

usage: upward.py BUILD_DIR HEADER...

The include folders are those that the build really passes, read from compile_commands.json. That
the permitted headers compile shows that the forbidden ones fail for the right reason.
"""
import json
import os
import shlex
import sys

from tap import Tap, compile_text

# As gcc and clang put it.
NOT_FOUND = ['No such file or directory', 'file not found']
BELOW = {
    'core': ['core', 'interfaces'],
    'host': ['host', 'core', 'interfaces'],
    'device': ['device', 'core', 'interfaces'],
    'adaptors': ['adaptors', 'device', 'host', 'core', 'interfaces'],
    'containers': ['containers', 'device', 'host', 'core', 'interfaces'],
}


def commands_by_module(build):
    """One compile command per module, without its source and outputs."""
    found = {}
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as file:
        for entry in json.load(file):
            for module in BELOW:
                if f'libcrmm-{module}.a.p' in entry['output']:
                    words = shlex.split(entry['command'])
                    words = [word for word in words if word not in ('-MD', '-c')]
                    for option in ('-o', '-MF', '-MQ'):
                        at = words.index(option)
                        del words[at:at + 2]
                    words = [word for word in words if not word.endswith('.c')]
                    found.setdefault(module, words + ['-fsyntax-only'])
    return found


def main():
    build, *headers = sys.argv[1:]
    commands = commands_by_module(build)
    os.chdir(build)
    tap = Tap()
    for module, below in BELOW.items():
        own = [header for header in headers if header.startswith(f'crmm/{module}/')]
        if not own:
            # Every adaptor may be disabled, and the module with them.
            tap.check(module == 'adaptors', f'{module} has headers')
            continue
        if module not in commands:
            tap.check(False, f'{module} is compiled')
            continue
        for header in headers:
            owner = header.split('/')[1]
            if owner != module and owner in ('host', 'device') and owner in below:
                continue  # permitted, and not every module needs it
            good, output = compile_text(commands[module],
                                        f'#include <{header}>\nextern int crmm_test_not_empty;\n',
                                        '.c')
            if owner in below:
                tap.check(good, f'{module} sees {header}', output)
            else:
                missing = any(text in output for text in NOT_FOUND)
                tap.check(not good and missing, f'{module} does not see {header}',
                          output or 'it compiles')
    tap.finish()


main()
