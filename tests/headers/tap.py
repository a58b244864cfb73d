# SPDX-License-Identifier: Apache-2.0
"""What the checks in this folder share: TAP output, and one compiler run."""
import os
import subprocess
import sys
import tempfile


class Tap:
    """Prints one line per check; finish() prints the plan, which a run that died lacks."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def check(self, good, name, detail=''):
        self.count += 1
        self.failed += not good
        print(f'{"ok" if good else "not ok"} {self.count} - {name}')
        if not good:
            for line in detail.splitlines():
                print(f'# {line}')

    def finish(self):
        if self.count == 0:
            self.check(False, 'something was checked')
        print(f'1..{self.count}')
        sys.exit(1 if self.failed else 0)


def compile_text(command, text, suffix):
    """Compiles `text`; gives whether it went well and what the compiler said."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, 'alone' + suffix)
        with open(source, 'w', encoding='utf-8') as file:
            file.write(text)
        done = subprocess.run(command + [source], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode == 0, done.stdout
