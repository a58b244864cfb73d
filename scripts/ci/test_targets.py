#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What has to be built for the tests of some suites: names for ninja, one per line.

usage: test_targets.py FOLDER SUITE...
"""
import json
import os
import subprocess
import sys


def introspect(folder, what):
    done = subprocess.run(['meson', 'introspect', folder, what], check=True,
                          stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def main():
    folder = os.path.realpath(sys.argv[1])
    suites = set(sys.argv[2:])
    files = {target['id']: target['filename'] for target in introspect(folder, '--targets')}
    found = set()
    for test in introspect(folder, '--tests'):
        # 'crmm:core' is the suite core of project crmm.
        if suites & {suite.rpartition(':')[2] for suite in test['suite']}:
            for target in test['depends']:
                found.update(files[target])
    print('\n'.join(sorted(os.path.relpath(file, folder) for file in found)))


main()
