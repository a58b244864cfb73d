#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up and passes all tests.
#
# usage: scripts/test.sh [argument of `meson test`]...
#
# With a GPU and a CUDA toolkit the tests run on the GPU, and one that finds none fails; otherwise
# they run on the emulated CUDA runtime. The last line is `N passed, N failed, N skipped`.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/dependencies.sh"

if has_gpu && has_toolkit; then
    echo 'testing on the GPU, with the CUDA toolkit'
    exec "$root/tests/gpu/run.sh" plain -- "$@"
fi

if has_gpu; then
    echo "there is a GPU, but no CUDA toolkit at $toolkit: testing on the emulated CUDA runtime"
else
    echo 'there is no GPU: testing on the emulated CUDA runtime'
fi
folder=$build_root/test
if ! configure_for_tests "$folder" || ! compile "$folder"; then
    echo '0 passed, 1 failed, 0 skipped'
    exit 1
fi
status=0
meson test -C "$folder" --no-rebuild --print-errorlogs "$@" || status=$?
"$root/tests/summary.py" --reasons "$folder" || status=1
exit "$status"
