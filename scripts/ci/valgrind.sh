#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The suites under valgrind's memcheck.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

folder=$build_root/test
configure_for_tests "$folder"
compile "$folder"

# The exit status of a test's own process is lost on the way to Meson, so the logs decide. Python
# and compilers are not ours to check.
reports=$ci_root/valgrind-reports
rm -rf "$reports"
mkdir -p "$reports"
wrapper="valgrind --quiet --trace-children=yes --trace-children-skip=*/python3*,*/sh,*/bash"
wrapper+=" --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite"
wrapper+=" --log-file=$reports/%p.log"
status=0
run_tests "$folder" --wrap "$wrapper" --timeout-multiplier 10 --no-suite headers || status=1
fail_on_files "$reports" 'valgrind' 'definitely lost|Invalid|ninitialised|Mismatched free|overlap|impossible'
exit "$status"
