#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang in a debug build, where validation is on; gcc in a release build, without assertions. Both
# must have the same tests. The `test` step is gcc's default build.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

options=(-Dcudart=emulated -Dcudart-emulated:tests=enabled)

folder=$ci_root/clang-debug
CC=clang CXX=clang++ configure "$folder" "${options[@]}" -Dbuildtype=debug
compile "$folder"
run_tests "$folder"

folder=$ci_root/gcc-release
CC=gcc CXX=g++ configure "$folder" "${options[@]}" -Dbuildtype=release -Db_ndebug=true
compile "$folder"
run_tests "$folder"

clang=$("$root/tests/summary.py" --suite everywhere "$ci_root/clang-debug/meson-logs/$step")
gcc=$("$root/tests/summary.py" --suite everywhere "$folder/meson-logs/$step")
if [ "$clang" != "$gcc" ]; then
    echo "clang runs other tests than gcc: $clang; $gcc" >&2
    exit 1
fi
