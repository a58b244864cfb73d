#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: nvcc.sh NVCC SOURCE compile|run INCLUDE_DIR... -- ARCHIVE...
# Compiles a test of the C++ headers with nvcc, and links and runs it where there may be a GPU.
set -eu

nvcc=$1
source=$2
what=$3
shift 3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

flags=(-std=c++17 -x cu)
while [ "$1" != -- ]; do
    flags+=(-I "$1")
    shift
done
shift

"$nvcc" "${flags[@]}" -c "$source" -o "$work/test.o"
if [ "$what" = compile ]; then
    echo "compiled; not run: this build is linked to the emulated runtime"
    exit 0
fi
"$nvcc" "$work/test.o" "$@" -o "$work/test"
"$work/test"
