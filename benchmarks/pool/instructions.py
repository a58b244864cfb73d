#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of a pair and of a churn step in a pool, and in what it is compared with.

usage: instructions.py [--check] [--allocator NAME]... [--json FILE] CRMM_BENCH_POOL

Each is the difference of two runs of different length under callgrind, so that what comes before
and after the steps drops out. The loop around the calls, some 20 instructions, is in them.
"""
import argparse
import json
import re
import subprocess
import sys

# Workload, text in the case's name, and the steps of the two runs.
CASES = (
    ('W1', 'pair 1 KiB', 20000, 60000),
    ('W1', 'pair 64 KiB', 20000, 60000),
    ('W3', 'churn of 1000 blocks', 20000, 60000),
)

# What --check demands: at most 200 for a pair in a pool; and that rmm_shape is what it stands for,
# within a quarter of the 524 and 3 944 that are known of RMM's pool.
LIMITS = {
    ('pair 1 KiB', 'pool'): (0, 200),
    ('pair 1 KiB', 'rmm_shape'): (524 * 0.75, 524 * 1.25),
    ('churn of 1000 blocks', 'rmm_shape'): (3944 * 0.75, 3944 * 1.25),
}


def count(program, allocator, case, steps):
    """All instructions of a run with one round of so many steps."""
    workload, name, _, _ = case
    command = ['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', program,
               '--workload', workload, '--case', name, '--allocator', allocator, '--threads', '1',
               '--rounds', '1', '--steps', str(steps), '--seconds', '0',
               # Valgrind has less address space than a pool takes by default.
               '--maximum', '4']
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    collected = re.search(r'Collected : (\d+)', done.stderr)
    # A name that is the beginning of others would add up several cases.
    if done.returncode != 0 or collected is None or 'left out' in done.stdout or \
            done.stdout.count(allocator) != 1:
        sys.exit(f'{" ".join(command)} failed:\n{done.stdout}{done.stderr}')
    return int(collected.group(1))


def main():
    parser = argparse.ArgumentParser(description='Counts instructions a step under callgrind.')
    parser.add_argument('--allocator', action='append', help='by default rmm_shape and pool')
    parser.add_argument('--check', action='store_true',
                        help='fail where a limit is missed; for a release build by gcc')
    parser.add_argument('--json', metavar='FILE', help='a file for the results, in JSON')
    parser.add_argument('program', metavar='CRMM_BENCH_POOL')
    given = parser.parse_args()
    allocators = given.allocator
    if not allocators:
        text = subprocess.run([given.program, '--help'], capture_output=True, text=True,
                              check=True).stdout
        allocators = [name for name in ('rmm_shape', 'pool')
                      if re.search(rf'^ +{name} ', text, re.MULTILINE)]

    results = []
    missed = []
    print(f'{"case":<20} {"allocator":<16} {"instructions":>12}')
    for case in CASES:
        _, name, few, many = case
        for allocator in allocators:
            steps = many - few
            instructions = (count(given.program, allocator, case, many) -
                            count(given.program, allocator, case, few)) / steps
            print(f'{name:<20} {allocator:<16} {instructions:>12.1f}', flush=True)
            results.append({'case': name, 'allocator': allocator, 'instructions': instructions})
            least, most = LIMITS.get((name, allocator), (0, instructions))
            if not least <= instructions <= most:
                missed.append(f'{name}, {allocator}: {instructions:.1f} is not {least:.0f} to '
                              f'{most:.0f}')
    if given.json:
        with open(given.json, 'w', encoding='utf-8') as out:
            json.dump(results, out, indent=1)
    if given.check and missed:
        sys.exit('\n'.join(missed))


if __name__ == '__main__':
    main()
