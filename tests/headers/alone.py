#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every public header alone, twice, and as plain prototypes, in one language.

usage: alone.py STANDARD HEADER... -- INCLUDE_DIR... -- [TOOLKIT_INCLUDE] -- COMPILER...

With a toolkit's include folder each header is also compiled with the real CUDA header before and
after it. Without, no CUDA header may be included, not even one that the machine happens to have.
"""
import re
import sys

from tap import Tap, compile_text

STRICT = ['-fsyntax-only', '-pedantic-errors', '-Wall', '-Wextra', '-Wconversion', '-Wshadow',
          '-Wundef', '-Werror']
CUDA = '#include <cuda_runtime_api.h>\n'


def split(words):
    groups = [[]]
    for word in words:
        if word == '--' and len(groups) < 4:
            groups.append([])
        else:
            groups[-1].append(word)
    return groups


def main():
    (standard, *headers), folders, toolkit, compiler = split(sys.argv[1:])
    is_cxx = '++' in standard
    suffix = '.cpp' if is_cxx else '.c'
    command = compiler + ['-std=' + standard] + STRICT
    command += [] if is_cxx else ['-Wstrict-prototypes', '-Wmissing-prototypes']
    command += [arg for folder in folders for arg in ('-I', folder)]
    # An empty source file is pedantically no C.
    tail = 'extern int crmm_test_not_empty;\n'
    tap = Tap()

    for header in headers:
        include = f'#include <{header}>\n'
        texts = {
            'alone': include,
            'twice': include + include,
            'without inline functions': '#define CRMM_NO_INLINE\n' + include,
        }
        with_cuda = {}
        if toolkit:
            with_cuda = {
                'after CUDA': CUDA + include,
                'before CUDA': include + CUDA,
            }
        for how, text in texts.items():
            good, output = compile_text(command, text + tail, suffix)
            tap.check(good, f'{header} {how}', output)
        for how, text in with_cuda.items():
            # CUDA's headers are not pedantic; -isystem excuses them and nobody else.
            good, output = compile_text(command + ['-isystem', toolkit[0]], text + tail, suffix)
            tap.check(good, f'{header} {how}', output)

        _, included = compile_text(command + ['-M'], include + tail, suffix)
        cuda = re.findall(r'\S*/(?:cuda\w*|driver_types|vector_types|nvml)\.h\b',
                          re.sub(r'\S*/crmm/\S*', '', included))
        tap.check(not cuda, f'{header} includes no CUDA header', '\n'.join(cuda))

    tap.finish()


main()
