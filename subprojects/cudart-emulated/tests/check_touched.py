#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every emulated function is called by some conformance check.   check_touched.py SOURCE_ROOT"""
import os
import re
import sys

root = sys.argv[1]
with open(os.path.join(root, 'src', 'functions.h'), encoding='utf-8') as listing:
    functions = re.findall(r'^EMULATED_\w+\((\w+)\)', listing.read(), re.M)
text = ''
folder = os.path.join(root, 'conformance')
for name in os.listdir(folder):
    if name.endswith('.c'):
        with open(os.path.join(folder, name), encoding='utf-8') as source:
            text += source.read()
missing = [f for f in functions if not re.search(r'\b%s\b' % f, text)]
print('%d functions, %d without a check %s' % (len(functions), len(missing), missing))
sys.exit(1 if missing else 0)
