#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing crmm needs, where it is not there yet, through apt.
#
# usage: scripts/dependencies.sh [--ci]
#
# Says nothing if all is there. Needs root, or sudo that asks for no password; otherwise it names
# the packages and stops. --ci adds what only the whole of .ci/run needs.
set -euo pipefail

# What a build looks for is looked for here too, so that a tool from elsewhere than apt counts.
missing=()

need_command() { # COMMAND PACKAGE
    command -v "$1" >/dev/null || missing+=("$2")
}

need_library() { # PKG-CONFIG-NAME PACKAGE
    pkg-config --exists "$1" 2>/dev/null || missing+=("$2")
}

need_command cc gcc
need_command c++ g++
need_command meson meson
need_command ninja ninja-build
need_command pkg-config pkgconf
need_command python3 python3
need_library criterion libcriterion-dev
need_library zlib zlib1g-dev
need_library libcjson libcjson-dev
# The compiler may be there without the C library's headers.
echo '#include <stdio.h>' | cc -fsyntax-only -x c - 2>/dev/null || missing+=(libc6-dev)

if [ "${1:-}" = --ci ]; then
    need_command git git
    need_command clang clang
    need_command clang-format-14 clang-format-14
    need_command run-clang-tidy-14 clang-tidy-14
    need_command cppcheck cppcheck
    need_command valgrind valgrind
    need_command shellcheck shellcheck
    need_command doxygen doxygen
    need_command ccache ccache
elif [ $# -gt 0 ]; then
    echo "usage: scripts/dependencies.sh [--ci]" >&2
    exit 2
fi

if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

refuse() {
    echo "scripts/dependencies.sh: $1. Please install these packages and run this again:" >&2
    echo "    ${missing[*]}" >&2
    exit 1
}

command -v apt-get >/dev/null || refuse 'some packages are missing, and there is no apt-get here'
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        refuse 'some packages are missing, and installing them needs root or sudo without a password'
    fi
    as_root=(sudo -n)
fi

echo "installing ${missing[*]}"
apt() {
    # DEBIAN_FRONTEND through env: sudo drops the environment.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null
}
apt update || refuse 'apt-get update failed'
apt install -y --no-install-recommends "${missing[@]}" >/dev/null || refuse 'apt-get install failed'
