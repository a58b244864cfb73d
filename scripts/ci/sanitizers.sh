#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All tests under AddressSanitizer, with leaks, and UndefinedBehaviorSanitizer. What the headers are
# needs no program to be run, and is tested elsewhere, as is what takes long only to find more.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

folder=$ci_root/sanitizers
# Undefined behaviour is only printed unless recovering is turned off, here for subprojects too.
configure "$folder" -Dcudart=emulated -Dcudart-emulated:tests=enabled -Doptimization=1 \
    -Db_sanitize=address,undefined -Db_lundef=false -Dc_args=-fno-sanitize-recover=all
compile "$folder"

# A leak that is found when a test's process ends does not fail the test, so every report goes to a
# file, and a file fails the step.
reports=$folder/reports
rm -rf "$reports"
mkdir -p "$reports"

# That each works at all on this machine.
canary=$folder/canary
for wrong in 'free(p); return *(volatile char *)p;' 'p = NULL; return p != NULL;' \
    'free(p); return ((volatile int){2147483647} + argc) == 7;'; do
    printf '#include <stdlib.h>\nint main(int argc, char **argv)\n{\n%s %s\n}\n' \
        'void *volatile p = malloc(argv != NULL ? (size_t)argc : 0);' "$wrong" |
        cc -fsanitize=address,undefined -fno-sanitize-recover=all -o "$canary" -x c -
    ASAN_OPTIONS=detect_leaks=1 expect_found 'a sanitizer' "$canary"
done

status=0
ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:log_path=$reports/asan \
    UBSAN_OPTIONS=print_stacktrace=1:log_path=$reports/ubsan \
    run_tests "$folder" --no-suite headers --no-suite long --timeout-multiplier 4 || status=1
# A request that cannot be met is a warning there, and no finding.
fail_on_files "$reports" 'a sanitizer' 'ERROR: |runtime error|SUMMARY: '
exit "$status"
