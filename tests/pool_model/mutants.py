#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the pool model finds what is wrong.

usage: mutants.py [--folder FOLDER] [--seeds N] [--operations M] [--jobs J] [--list] [NAME]...

Copies the sources to FOLDER, J times, makes one mistake after the other in a copy (those of
mutant_list.py, or the ones whose names begin with a NAME), builds the model and runs it. A mistake
that no seed notices is a failure, and so is one whose place in the source is not found exactly once.
"""
import argparse
import concurrent.futures
import os
import queue
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from mutant_list import MUTANTS  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAMS = {'model': 'tests/pool_model/pool-model',
            'threads': 'tests/pool_model/program-pool-model-threads'}
TIMEOUT = 60
# Whether a thread's mistake shows is chance: where none of the few shows it, many are tried.
FEW_THREAD_SEEDS = 4
THREAD_SEEDS = 24
MORE_THREAD_SEEDS = 480


class Unusable(Exception):
    """A mistake that cannot be tried."""


class Tree:
    """A copy of the sources, and its build folder."""

    def __init__(self, folder):
        self.source = os.path.join(folder, 'source')
        self.build = os.path.join(folder, 'build')
        shutil.rmtree(self.source, ignore_errors=True)
        # New times, or what an earlier run built of a mistake would be taken for built of this.
        shutil.copytree(ROOT, self.source, copy_function=shutil.copy,
                        ignore=shutil.ignore_patterns('.git', 'build', 'shared'))
        if not os.path.exists(os.path.join(self.build, 'build.ninja')):
            subprocess.run(['meson', 'setup', self.build, self.source, '-Dcudart=emulated',
                            '-Dwerror=true', '-Dtests=enabled', '-Dtools=disabled',
                            '-Dbenchmarks=disabled'],
                           check=True, stdout=subprocess.DEVNULL)

    def path(self, name):
        return os.path.join(self.source, name)

    def compile(self, program):
        done = subprocess.run(['ninja', '-j1', '-C', self.build, PROGRAMS[program]],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Unusable(f'it does not build:\n{done.stdout[-4000:]}')

    def run(self, mutant, seeds, operations, thread_seeds=THREAD_SEEDS, late='hangs',
            timeout=TIMEOUT):
        """(where, seed, how often, first words); None: nothing was found. `late`: what a run that
        does not end in time, without a failure so far, has shown."""
        command = [os.path.join(self.build, PROGRAMS[mutant.program])]
        if mutant.program == 'threads':
            command += [mutant.pool, '1', str(thread_seeds)]
        else:
            command += ['--pool', mutant.pool, '--seeds', str(seeds), '--operations',
                        str(operations), '--configuration', mutant.configuration]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=timeout)
        except subprocess.TimeoutExpired as stopped:
            text = stopped.stdout or b''
            found = found_in(text.decode() if isinstance(text, bytes) else text, late)
            return found if late or found[1] != '-' else None
        ending = f'signal {-done.returncode}' if done.returncode < 0 else ''
        if done.returncode == 0:
            return None
        return found_in(done.stdout, ending)


def found_in(output, ending):
    """What a run's output says: the configuration with most failures, and one of its seeds."""
    failures = []
    seeds = []
    for line in output.splitlines():
        seed = re.match(r' *seed (\d+)(?:, operation \d+)?: (.*)', line)
        total = re.match(r'([\w-]+): (\d+) seeds, .* (\d+) failures', line)
        if seed:
            seeds.append((int(seed.group(1)), seed.group(2)))
        elif total:
            if seeds:
                failures.append((int(total.group(3)), total.group(1), total.group(2), seeds[0]))
            seeds = []
    if failures:
        count, configuration, of, (seed, why) = max(failures, key=lambda entry: entry[0])
        return configuration, str(seed), f'{count} of {of}', why
    if seeds:
        return '-', str(seeds[0][0]), '1', seeds[0][1]
    return '-', '-', '-', ending or output.strip()[-200:]


def apply(tree, mutant):
    """Make the mistake; returns what undoes it."""
    path = tree.path(mutant.file)
    with open(path, encoding='utf-8') as file:
        text = file.read()
    count = text.count(mutant.text)
    if count != 1:
        raise Unusable(f'its text is {count} times in {mutant.file}, and not once')

    def put(what):
        with open(path, 'w', encoding='utf-8') as file:
            file.write(what)

    put(text.replace(mutant.text, mutant.replacement))
    return lambda: put(text)


def check_unchanged(tree, mutants, options):
    """Without a mistake nothing must be found."""
    seen = {}
    for mutant in mutants:
        seen.setdefault((mutant.program, mutant.pool), mutant)
    for (program, pool), mutant in seen.items():
        tree.compile(program)
        # The toy's lists are slow, and more so on a machine that is busy.
        found = tree.run(mutant, options.seeds, options.operations, FEW_THREAD_SEEDS,
                         timeout=10 * TIMEOUT)
        if found:
            raise Unusable(f'{pool}, {program}: fails without any mistake: {found}')


def try_mutant(tree, mutant, options):
    undo = apply(tree, mutant)
    try:
        tree.compile(mutant.program)
        found = tree.run(mutant, options.seeds, options.operations)
        if not found:
            more = 40 if mutant.configuration else 10
            # So many seeds take long by themselves.
            found = tree.run(mutant, options.seeds * more, options.operations * 3,
                             MORE_THREAD_SEEDS, late='')
        return found
    finally:
        undo()


def take_turn(trees, mutant, options):
    """What was found in a copy that nobody else has just now, and the seconds it took."""
    tree = trees.get()
    begin = time.monotonic()
    try:
        found = try_mutant(tree, mutant, options)
    finally:
        trees.put(tree)
    return found, int(time.monotonic() - begin)


def try_all(trees, mutants, options):
    """The number of those that were not found."""
    missed = 0
    row = '{:52} {:16} {:>6} {:>10} {:>5}  {}'
    print(row.format('mistake', 'configuration', 'seed', 'caught', 's', 'what was found'))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as threads:
        turns = [(mutant, threads.submit(take_turn, trees, mutant, options)) for mutant in mutants]
        for mutant, turn in turns:
            try:
                found, seconds = turn.result()
            except Unusable as why:
                found, seconds = None, 0
                print(f'{mutant.name}: {why}')
            missed += found is None
            where, seed, count, why = found or ('NOT FOUND', '-', '-', '')
            print(row.format(mutant.name, where, seed, count, seconds, why[:90]), flush=True)
    return missed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--folder', default=os.path.join(ROOT, 'build', 'mutants'))
    parser.add_argument('--seeds', type=int, default=20)
    parser.add_argument('--operations', type=int, default=20000)
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--list', action='store_true')
    parser.add_argument('names', nargs='*')
    options = parser.parse_args()
    mutants = [mutant for mutant in MUTANTS
               if not options.names or any(mutant.name.startswith(name) for name in options.names)]
    if options.list or not mutants:
        print('\n'.join(mutant.name for mutant in MUTANTS))
        sys.exit(0 if options.list else 2)

    trees = queue.Queue()
    for i in range(options.jobs):
        trees.put(Tree(os.path.join(options.folder, str(i))))
    tree = trees.get()
    check_unchanged(tree, mutants, options)
    trees.put(tree)
    missed = try_all(trees, mutants, options)
    print(f'{len(mutants)} mistakes, {missed} not found')
    sys.exit(1 if missed else 0)


if __name__ == '__main__':
    main()
