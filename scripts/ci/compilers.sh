#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang in a debug build, where validation is on; gcc in a release build, without assertions, where
# the pool's instructions are counted. Both must have the same tests. The `test` step is gcc's default
# build, and has tried the headers with gcc and nvcc. The pool's model is built by clang, and run
# where it is fast.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

configure_clang
compile "$clang_folder"
run_tests "$clang_folder" --no-suite nvcc --no-suite long --no-suite pool-model

folder=$ci_root/gcc-release
CC=gcc CXX=g++ configure "$folder" -Dcudart=emulated -Dcudart-emulated:tests=enabled \
    -Dbuildtype=release -Db_ndebug=true
compile "$folder"
run_tests "$folder" --no-suite headers
"$root/benchmarks/pool/instructions.py" --check "$folder/benchmarks/pool/crmm-bench-pool"

clang=$("$root/tests/summary.py" --suite everywhere "$clang_folder/meson-logs/$step")
gcc=$("$root/tests/summary.py" --suite everywhere "$folder/meson-logs/$step")
if [ "$clang" != "$gcc" ]; then
    echo "clang runs other tests than gcc: $clang; $gcc" >&2
    exit 1
fi
