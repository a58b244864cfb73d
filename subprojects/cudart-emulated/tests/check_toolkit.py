#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the emulation's headers with those of an installed toolkit.

    check_toolkit.py CC SOURCE_ROOT TOOLKIT_ROOT

The sources must compile against the toolkit's headers, where any other prototype is an error;
every enumerator and constant must have the same value, every struct the same layout. Exit status
77, with the reason, where there is no toolkit.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HEADERS = ['driver_types.h', 'cuda_runtime_api.h', 'cuda.h']
STRUCTS = {
    'struct cudaDeviceProp': ['uuid', 'totalGlobalMem', 'major', 'multiProcessorCount',
                              'l2CacheSize', 'managedMemory', 'memoryPoolsSupported', 'reserved'],
    'struct cudaPointerAttributes': ['type', 'device', 'devicePointer', 'hostPointer'],
    'struct cudaMemLocation': ['type', 'id'],
    'struct cudaMemAccessDesc': ['location', 'flags'],
    'struct cudaMemPoolProps': ['allocType', 'handleTypes', 'location', 'maxSize', 'usage'],
    'CUmemAllocationProp': ['type', 'requestedHandleTypes', 'location', 'allocFlags'],
    'CUmemAccessDesc': ['location', 'flags'],
    'CUmemLocation': ['type', 'id'],
    'cudaGraphEdgeData': ['from_port', 'to_port', 'type'],
}


def skip(reason):
    print('skipped: ' + reason)
    sys.exit(77)


def toolkit_version(include):
    try:
        with open(os.path.join(include, 'cuda_runtime_api.h'), encoding='utf-8') as header:
            return int(re.search(r'#define CUDART_VERSION +(\d+)', header.read()).group(1))
    except (OSError, AttributeError):
        return None


def constants(root):
    """Names of enumerators and of macros with a value, from our own headers."""
    found = []
    for name in HEADERS:
        with open(os.path.join(root, 'include', name), encoding='utf-8') as header:
            text = header.read()
        found += re.findall(r'^\s+(cuda[A-Z]\w*|CU_\w+|CUDA_\w+) = ', text, re.M)
        found += re.findall(r'^#define (cuda[A-Z]\w*|CU_\w+) +(?:0x|\(\(int|\(\(CUdevice)', text,
                            re.M)
    return list(dict.fromkeys(found))


def printer(root, names):
    lines = ['#include <cuda.h>', '#include <cuda_runtime_api.h>', '#include <stddef.h>',
             '#include <stdio.h>', 'int main(void)', '{']
    lines += ['    printf("%s %%lld\\n", (long long)(%s));' % (n, n) for n in names]
    for struct, members in STRUCTS.items():
        lines.append('    printf("sizeof %s %%zu\\n", sizeof(%s));' % (struct, struct))
        lines += ['    printf("%s.%s %%zu\\n", offsetof(%s, %s));' % (struct, m, struct, m)
                  for m in members]
    return '\n'.join(lines + ['    return 0;', '}', ''])


def values(cc, source, include, version, folder):
    program = os.path.join(folder, 'printer')
    subprocess.run(cc + ['-std=c11', '-isystem', include, '-o', program,
                         '-DCUDART_EMULATED_API_VERSION=%d' % version, source], check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.split('\n')


def main():
    cc, root, toolkit = sys.argv[1].split(), sys.argv[2], sys.argv[3]
    include = os.path.join(toolkit, 'include')
    version = toolkit_version(include)
    if version is None:
        skip('no toolkit under ' + toolkit)
    if not 12000 <= version <= 13000:
        skip('toolkit %d is not one whose signatures the header has' % version)
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        own = os.path.join(folder, 'include')
        os.mkdir(own)
        shutil.copy(os.path.join(root, 'include', 'cudart_emulated.h'), own)
        sources = sorted(f for f in os.listdir(os.path.join(root, 'src')) if f.endswith('.c'))
        for name in sources:
            result = subprocess.run(
                cc + ['-std=c11', '-D_GNU_SOURCE', '-DCUDART_EMULATED_BUILD', '-fsyntax-only',
                      '-Wno-deprecated-declarations', '-Werror=incompatible-pointer-types',
                      '-DCUDART_EMULATED_API_VERSION=%d' % version, '-isystem', include,
                      '-I', own, os.path.join(root, 'src', name)])
            failures += result.returncode != 0
        source = os.path.join(folder, 'printer.c')
        with open(source, 'w', encoding='utf-8') as out:
            out.write(printer(root, constants(root)))
        ours = values(cc, source, os.path.join(root, 'include'), version, folder)
        theirs = values(cc, source, include, version, folder)
        for mine, other in zip(ours, theirs):
            if mine != other:
                print('ours: %s, the toolkit: %s' % (mine, other))
                failures += 1
    print('%d sources and %d values compared with toolkit %d, %d differ'
          % (len(sources), len(ours) - 1, version, failures))
    sys.exit(1 if failures else 0)


main()
