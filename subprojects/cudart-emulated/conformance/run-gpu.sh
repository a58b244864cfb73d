#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the conformance program against a CUDA toolkit with plain cc and runs it on a real GPU.
#   run-gpu.sh [TOOLKIT [OPTIONS...]]      TOOLKIT: /usr/local/cuda; options as for conformance
# IDS="ERR23 VMM" in the environment runs only the checks whose names begin so.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
toolkit=${1:-/usr/local/cuda}
[ $# -eq 0 ] || shift
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
library=$toolkit/lib64
[ -d "$library" ] || library=$toolkit/lib
${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 -g -Wall -o "$build/conformance" \
    -isystem "$toolkit/include" "$here"/*.c \
    -L"$library" -lcudart_static -lpthread -ldl -lrt
if [ $# -eq 0 ]; then
    set -- -j 6
fi
"$build/conformance" "$@" "$here/expected.txt" ${IDS:+/dev/null $IDS}
