#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of one or more `meson test` runs.

usage: summary.py [--suite SUITE] [--failed N] [--skipped N] [--reasons] LOG...

LOG is a build folder, or one run's log in it without its ending (build/meson-logs/testlog). The
last line printed is `N passed, N failed, N skipped`; the exit status is 0 if something passed and
nothing failed.

The cases are those of the JUnit file. A test that died, timed out or printed an incomplete list of
cases has no case there that failed, so the run's other log is read beside it: each test that did
not end well counts as one failure at least, and so does one that is skipped without a reason.

What failed is named on stderr.

--suite counts only the tests of one Meson suite. --failed and --skipped add what a caller counted
itself, such as checks that are no tests. --reasons tells on stderr why tests were skipped.
"""
import argparse
import json
import os
import re
import sys
import xml.etree.ElementTree as ET

GOOD = ('OK', 'SKIP', 'EXPECTEDFAIL')


class Counts:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def __str__(self):
        return f'{self.passed} passed, {self.failed} failed, {self.skipped} skipped'


def suites_of(test_name):
    """The Meson suites of a test, by its name in the logs.

    core/fork in the suites core and threads is 'crmm:core+threads / core/fork' to older Mesons, and
    'core+threads - crmm:core/fork' to newer ones.
    """
    head, separator, _ = test_name.partition(' - ')
    if separator:
        return head.split('+')
    head, separator, _ = test_name.partition(' / ')
    return head.partition(':')[2].split('+') if separator else []


def skip_reasons(test):
    """What a test says of what it skips: cases of a TAP list, or all of it with exit status 77."""
    reasons = re.findall(r'# SKIP +(\S.*)', test['stdout'])
    if test['returncode'] == 77 and not reasons:
        said = (test['stdout'] + test.get('stderr', '')).split('\n')
        reasons = [line for line in said if line.strip()][-1:]
    return reasons


def read_results(log, tell_reasons):
    """Each test's result as Meson saw it; 'SILENT' for a skip without a reason."""
    results = {}
    with open(log + '.json', encoding='utf-8') as file:
        for line in file:
            test = json.loads(line)
            # Meson calls a TAP test that printed nothing, or gave up, skipped.
            reasons = skip_reasons(test)
            silent = test['result'] == 'SKIP' and not reasons
            results[test['name']] = 'SILENT' if silent else test['result']
            for reason in reasons if tell_reasons else []:
                print(f'skipped: {test["name"]}: {reason}', file=sys.stderr)
            if silent:
                print(f'skipped without a reason: {test["name"]}', file=sys.stderr)
    return results


def add_run(log, wanted, counts, tell_reasons):
    results = read_results(log, tell_reasons)
    failed_tests = set()
    for suite in ET.parse(log + '.junit.xml').iter('testsuite'):
        for case in suite.iter('testcase'):
            # A test with cases has a suite element of its own, '<project>.<test>'; the others
            # share one for the project.
            test = suite.get('name').partition('.')[2]
            test = test if test in results else case.get('name')
            if wanted and wanted not in suites_of(test):
                continue
            failed = case.find('failure') is not None or case.find('error') is not None
            if failed or results[test] == 'SILENT':
                counts.failed += 1
                failed_tests.add(test)
                print(f'failed: {log}: {test}: {case.get("name")}', file=sys.stderr)
            elif case.find('skipped') is not None:
                counts.skipped += 1
            else:
                counts.passed += 1

    for test, result in results.items():
        if wanted and wanted not in suites_of(test):
            continue
        if result not in GOOD and test not in failed_tests:
            counts.failed += 1
            print(f'failed: {log}: {test}: {result}', file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description='Count the test cases of meson test runs.')
    parser.add_argument('--suite')
    parser.add_argument('--failed', type=int, default=0)
    parser.add_argument('--skipped', type=int, default=0)
    parser.add_argument('--reasons', action='store_true')
    parser.add_argument('logs', nargs='+', metavar='LOG')
    arguments = parser.parse_args()

    counts = Counts()
    for log in arguments.logs:
        if os.path.isdir(log):
            log = os.path.join(log, 'meson-logs', 'testlog')
        add_run(log, arguments.suite, counts, arguments.reasons)
    counts.failed += arguments.failed
    counts.skipped += arguments.skipped
    print(counts)
    sys.exit(0 if counts.passed and not counts.failed else 1)


main()
