#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The README's second command, as a user runs it.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

rm -f "$build_root/test/meson-logs/testlog"*
status=0
"$root/scripts/test.sh" || status=$?
count_tests "$build_root/test/meson-logs/testlog" || status=1
exit "$status"
