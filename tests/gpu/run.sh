#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the tests with the CUDA toolkit and runs them on this machine's GPU.
#
# usage: tests/gpu/run.sh [plain|memcheck|racecheck|initcheck|synccheck|asan]... [-- ARGUMENT...]
#
# All but plain and asan are tools of compute-sanitizer. ARGUMENTs go to `meson test`. A test that
# is skipped for lack of a GPU fails, and so does a run that has another number of test cases than
# the same suites have on the emulated runtime. The last line is `N passed, N failed, N skipped`.
#
# Where Criterion, zlib or cJSON is missing, what bundle.sh has packed is used.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

modes=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case $1 in
    plain | memcheck | racecheck | initcheck | synccheck | asan) modes+=("$1") ;;
    *)
        sed -n 's/^# usage: //p' "$0" >&2
        exit 2
        ;;
    esac
    shift
done
if [ "${1:-}" = -- ]; then
    shift
fi
if [ ${#modes[@]} -eq 0 ]; then
    modes=(plain)
fi

for package in criterion zlib libcjson; do
    bundled=$root/.gpu/$package/lib
    if ! pkg-config --exists "$package" && [ -d "$bundled" ]; then
        export PKG_CONFIG_PATH=$bundled/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
        echo "using the bundled $package"
    fi
done

if ! has_gpu; then
    echo 'tests/gpu/run.sh: there is no GPU here (nvidia-smi -L names none)' >&2
    exit 1
fi
nvidia-smi -L
# A test case is a process of its own, and each has a context of half a GiB on every GPU: as many at
# once as there are processors would leave them none.
export CRITERION_JOBS=4 MESON_TESTTHREADS=8
selection=(--no-suite emulation)
if [ "$(nvidia-smi -L | grep -c '^GPU ')" -lt 2 ]; then
    echo 'one GPU: the two-devices suites are not run'
    selection+=(--no-suite two-devices)
fi

# Test cases of runs that can run everywhere, whatever came of them.
cases() {
    "$root/tests/summary.py" --suite everywhere "$@" | awk '{ print $1 + $3 + $5 }'
}

# The same suites on the emulation, for their number.
emulated=$build_root/gpu-emulated
configure_for_tests "$emulated"
compile "$emulated"
status=0
meson test -C "$emulated" --no-rebuild --quiet --suite everywhere "$@" >/dev/null || status=$?
expected=$(cases "$emulated" || true)
if [ "$status" -ne 0 ]; then
    echo 'the suites fail on the emulated runtime already' >&2
fi

runs=()
for mode in "${modes[@]}"; do
    folder=$build_root/gpu
    options=(-Dcudart=toolkit -Dtoolkit_root="$toolkit" -Dtests=enabled -Dtools=enabled)
    if [ "$mode" = asan ]; then
        folder=$build_root/gpu-asan
        options+=('-Db_sanitize=address,undefined' -Db_lundef=false)
        options+=(-Dc_args=-fno-sanitize-recover=all)
    fi
    configure "$folder" "${options[@]}"
    compile "$folder"

    reports=$folder/reports-$mode
    rm -rf "$reports" "$folder/meson-logs/$mode"*
    mkdir -p "$reports"
    arguments=(-C "$folder" --no-rebuild --print-errorlogs --logbase "$mode" "${selection[@]}")
    run=$folder/meson-logs/$mode
    leaving=
    echo "--- $mode"
    result=0
    case $mode in
    plain)
        CRMM_TEST_REQUIRE_GPU=1 meson test "${arguments[@]}" "$@" || result=$?
        ;;
    asan)
        # Without protect_shadow_gap=0 CUDA finds no device.
        ASAN_OPTIONS=protect_shadow_gap=0:detect_leaks=1:allocator_may_return_null=1:log_path=$reports/asan \
            UBSAN_OPTIONS=print_stacktrace=1:log_path=$reports/ubsan \
            CRMM_TEST_REQUIRE_GPU=1 meson test "${arguments[@]}" --timeout-multiplier 5 "$@" ||
            result=$?
        ;;
    *)
        # Many tests make calls that CUDA refuses, and some make none at all.
        wrapper="compute-sanitizer --tool $mode --target-processes all --error-exitcode 99"
        wrapper+=" --report-api-errors no --require-cuda-init no --log-file $reports/%p.log"
        leaks=
        if [ "$mode" = memcheck ]; then
            leaks=' --leak-check full'
        fi
        CRMM_TEST_COMPUTE_SANITIZER=1 CRMM_TEST_REQUIRE_GPU=1 \
            meson test "${arguments[@]}" --no-suite headers \
            --no-suite leaves-memory --timeout-multiplier 10 --wrap "$wrapper$leaks" "$@" ||
            result=$?
        run=$run-compute-sanitizer
        # What is wanted may be all among the others, which Meson takes for a mistake.
        if [ ! -f "$run.junit.xml" ]; then
            result=0
        fi
        ended=0
        # These leave memory to the end of the process, as they should.
        leaving=$folder/meson-logs/$mode-leaving
        CRMM_TEST_REQUIRE_GPU=1 meson test -C "$folder" --no-rebuild --print-errorlogs \
            --logbase "$mode-leaving" --suite leaves-memory --timeout-multiplier 10 \
            --wrap "$wrapper" "$@" || ended=$?
        leaving+=-compute-sanitizer
        if [ -f "$leaving.junit.xml" ] && [ "$ended" -ne 0 ]; then
            result=$ended
        fi
        # That the tool looked at something.
        if ! grep -rq 'ERROR SUMMARY' "$reports"; then
            echo "compute-sanitizer left no report in $reports" >&2
            result=1
        fi
        ;;
    esac
    # Those of the two that had tests among the wanted ones.
    logs=()
    for log in "$run" "$leaving"; do
        if [ -f "$log.junit.xml" ]; then
            logs+=("$log")
        fi
    done
    runs+=("${logs[@]}")

    bad=$(grep -rlE 'ERROR SUMMARY: [1-9]|(Address|Leak|UndefinedBehavior)Sanitizer|runtime error' \
        "$reports" || true)
    for report in $bad; do
        echo "--- $report" >&2
        # What tells least: that tool knows no heaps in memory that is not CUDA's.
        grep -vE 'nvtxMem|^=+ *$' "$report" | head -n 60 >&2 || true
        result=1
    done
    found=$(cases "${logs[@]}" || true)
    echo "$mode: $found test cases on the GPU, $expected on the emulated runtime"
    if [ "$found" != "$expected" ]; then
        echo 'the numbers differ' >&2
        result=1
    fi
    skipped=$("$root/tests/summary.py" "${logs[@]}" | awk '{ print $5 }' || true)
    if [ "$skipped" != 0 ]; then
        echo "$mode: $skipped skipped" >&2
        result=1
    fi
    if [ "$result" -ne 0 ]; then
        echo "$mode failed" >&2
        status=1
    fi
done

"$root/tests/summary.py" "${runs[@]}" || status=1
exit "$status"
