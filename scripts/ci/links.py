#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the links between the project's own documents.

usage: links.py ROOT

A link to a file must name one that is there, a link to a heading one that the file has. A block of
C code in README.md that is said to be an example's must be that example.
"""
import os
import re
import sys

LINK = re.compile(r'\[[^\]]*\]\(([^)\s]+)\)')


def anchors(path):
    found = set()
    with open(path, encoding='utf-8') as file:
        for line in file:
            if line.startswith('#'):
                text = line.lstrip('#').strip().lower()
                found.add(re.sub(r'[^\w\- ]', '', text).replace(' ', '-'))
    return found


def documents(root):
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders
                      if not name.startswith('build') and name not in ('.git', '.gpu')]
        for name in files:
            if name.endswith('.md'):
                yield os.path.join(folder, name)


def main():
    root = sys.argv[1]
    count = 0
    wrong = []
    for document in documents(root):
        with open(document, encoding='utf-8') as file:
            text = file.read()
        for target in LINK.findall(text):
            if '://' in target or target.startswith('mailto:'):
                continue
            count += 1
            path, _, anchor = target.partition('#')
            path = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path \
                else document
            if not os.path.exists(path):
                wrong.append(f'{document}: no such file: {target}')
            elif anchor and anchor not in anchors(path):
                wrong.append(f'{document}: no such heading: {target}')

    with open(os.path.join(root, 'README.md'), encoding='utf-8') as file:
        blocks = re.findall(r'<!-- (examples/\S+\.c) -->\n```c\n(.*?)```', file.read(), re.S)
    if not blocks:
        wrong.append('README.md: no example')
    for name, block in blocks:
        with open(os.path.join(root, name), encoding='utf-8') as file:
            source = file.read()
        if block.strip() not in source:
            wrong.append(f'README.md: its example is not what is in {name}')

    print(f'{count} links between documents, {len(blocks)} examples, {len(wrong)} wrong')
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if wrong or not count else 0)


main()
