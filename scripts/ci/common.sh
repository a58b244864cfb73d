# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the steps of .ci/run.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

step=$(basename "$0" .sh)
ci_root=$build_root/ci
mkdir -p "$ci_root"
# Names the logs of all test runs, one per line, without their endings.
logs=$ci_root/logs

# count_tests LOG: print a run's counts and have .ci/run count them; fails if a test has failed.
count_tests() {
    if [ ! -f "$1.junit.xml" ]; then
        echo "no test was run: there is no $1.junit.xml" >&2
        return 1
    fi
    echo "$1" >>"$logs"
    printf '%s: ' "$1"
    if ! "$root/tests/summary.py" --reasons "$1"; then
        touch "$ci_root/$step.tests-failed"
        return 1
    fi
}

# run_tests FOLDER [ARGUMENT of meson test]...: run a build folder's tests and count them.
run_tests() {
    local folder=$1 status=0
    shift
    # A log of its own for each step that runs the folder.
    rm -f "$folder/meson-logs/$step"*
    meson test -C "$folder" --no-rebuild --print-errorlogs --quiet --logbase "$step" "$@" ||
        status=$?
    local log=$folder/meson-logs/$step
    case " $* " in
    *' --wrap valgrind'*) log=$log-valgrind ;; # Meson appends the wrapper's name
    *' --wrap setarch'*) log=$log-setarch ;;
    esac
    count_tests "$log" || return 1
    return "$status"
}

# configure_clang: the build with clang that tests run in, and that static analysis looks at.
clang_folder=$ci_root/clang-debug
configure_clang() {
    CC=clang CXX=clang++ configure "$clang_folder" -Dcudart=emulated -Dtests=enabled -Dtools=enabled \
        -Dcudart-emulated:tests=enabled -Dbuildtype=debug
}

# compile_tests FOLDER SUITE...: build only what the tests of these suites need.
compile_tests() {
    local folder=$1 targets
    targets=$("$root/scripts/ci/test_targets.py" "$@")
    # shellcheck disable=SC2086 # one word per file; names are the build's own
    compile "$folder" $targets
}

# expect_found WHAT COMMAND...: that a tool which is built into the command finds what is wrong in it.
expect_found() {
    local what=$1
    shift
    if "$@" >/dev/null 2>&1; then
        echo "$what does not work here: it finds nothing in a program that is wrong" >&2
        return 1
    fi
}

# fail_on_files DIR WHAT PATTERN: print and refuse the reports in which a tool says something.
fail_on_files() {
    local bad
    bad=$(grep -lE "$3" -r "$1" || true)
    if [ -n "$bad" ]; then
        echo "$2 found something:" >&2
        # shellcheck disable=SC2086 # one word per file; names are the tool's own
        head -n 60 $bad >&2
        return 1
    fi
}
