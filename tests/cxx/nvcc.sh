#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: nvcc.sh NVCC SOURCE compile|run INCLUDE_DIR... -- ARCHIVE...
# Compiles a test of the C++ headers with nvcc; with `run` links it too, and runs it where there is a
# GPU: kernels are nothing that the emulation could run.
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
    echo 'compiled; not linked: the archives of this build are not for nvcc'
    exit 0
fi
"$nvcc" "$work/test.o" "$@" -o "$work/test"
if ! nvidia-smi -L >/dev/null 2>&1; then
    echo 'compiled and linked; not run: there is no GPU'
    exit 0
fi
"$work/test"
