#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The archive defines no name that a program could have too.

    check_symbols.py NM ARCHIVE
    check_symbols.py --write SOURCE_ROOT NM ARCHIVE     writes src/names.h from what it finds
"""
import re
import subprocess
import sys


def defined(nm, archive):
    text = subprocess.run([nm, '-g', '--defined-only', archive], check=True, capture_output=True,
                          text=True).stdout
    names = re.findall(r'^[0-9a-f]+ \w (\w+)$', text, re.M)
    return sorted(set(n for n in names if not n.startswith('__')))


if sys.argv[1] == '--write':
    root, nm, archive = sys.argv[2:5]
    prefix = 'cudart_emulated_private_'
    found = [n[len(prefix):] if n.startswith(prefix) else n for n in defined(nm, archive)]
    found = sorted(set(n for n in found if not n.startswith('cuda')))
    with open(root + '/src/names.h', 'w', encoding='utf-8') as out:
        out.write('/* SPDX-License-Identifier: Apache-2.0 */\n'
                  '/*\n * The archive is linked into programs that have names of their own: ours get '
                  'a prefix there.\n * Written by tests/check_symbols.py --write.\n */\n'
                  '/* clang-format off */\n')
        out.writelines('#pragma redefine_extname %s %s%s\n' % (n, prefix, n) for n in found)
    sys.exit(0)

bad = [n for n in defined(sys.argv[1], sys.argv[2]) if not n.startswith('cuda')]
print('names that a program could have too: %s' % (', '.join(bad) or 'none'))
sys.exit(1 if bad else 0)
