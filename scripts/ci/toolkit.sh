#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds against the CUDA toolkit, and runs those binaries with the emulation in the place of the
# runtime that they were linked to.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

if ! has_toolkit; then
    echo "skipped: there is no CUDA toolkit at $toolkit"
    exit 77
fi

folder=$ci_root/toolkit-static
configure "$folder" -Dcudart=toolkit -Dcudart_link=static -Dtoolkit_root="$toolkit"
compile "$folder"
# The tests of headers that are others here: one links, and other files are built.
run_tests "$folder" --suite nvcc --suite tree

emulated=$build_root/test
if [ ! -f "$emulated/meson-logs/testlog.junit.xml" ]; then
    "$root/scripts/test.sh"
fi

folder=$ci_root/toolkit-shared
configure "$folder" -Dcudart=toolkit -Dcudart_link=shared -Dtoolkit_root="$toolkit"
compile "$folder"
LD_LIBRARY_PATH=$emulated/subprojects/cudart-emulated CRMM_TEST_REQUIRE_GPU=1 \
    run_tests "$folder" --no-suite headers

shared=$("$root/tests/summary.py" --suite everywhere "$folder/meson-logs/$step")
expected=$("$root/tests/summary.py" --suite everywhere "$emulated")
if [ "$shared" != "$expected" ]; then
    echo "built with the toolkit: $shared; built with the emulation: $expected" >&2
    exit 1
fi
