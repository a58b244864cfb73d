#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds that differ in their options: nothing optional, each adaptor alone, no messages, the oldest
# supported CUDA interface, and what `cudart` does on a machine without a toolkit.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

folder=$ci_root/options
rm -rf "$folder"
configure "$folder" -Dcudart=emulated -Dauto_features=disabled
compile "$folder"
built=$(find "$folder" -path '*/meson-private' -prune -o -type f -executable ! -name '*.so*' -print)
if [ -n "$built" ]; then
    echo "-Dauto_features=disabled builds more than the library: $built" >&2
    exit 1
fi

# expect_adaptors FOLDER [NAME]...: that a build has the symbols, headers and variables of these
# adaptors and of no others.
expect_adaptors() {
    local folder=$1 wanted found
    shift
    wanted=$(printf '%s\n' "$@" | sort)
    # An archive without members is no error.
    found=$(find "$folder/adaptors" -name 'libcrmm-adaptors.a' -exec nm -g --defined-only {} + |
        grep -oE 'crmm_[a-z0-9_]+_resource_adaptor' | sed 's/^crmm_//; s/_resource_adaptor$//' | sort -u || true)
    if [ "$found" != "$wanted" ]; then
        echo "$folder has symbols of the adaptors \"$found\", not \"$wanted\"" >&2
        return 1
    fi
    found=$(meson introspect "$folder" --installed | grep -oE 'crmm/adaptors/[a-z_]+_resource_adaptor\.h' |
        sed 's|.*/||; s/_resource_adaptor.h$//' | sort -u || true)
    if [ "$found" != "$wanted" ]; then
        echo "$folder installs headers of the adaptors \"$found\", not \"$wanted\"" >&2
        return 1
    fi
    found=$(sed -n 's/^adaptor_\(.*\)=true$/\1/p' "$folder/meson-private/crmm.pc" | sort)
    if [ "$found" != "$wanted" ]; then
        echo "$folder/meson-private/crmm.pc has the adaptors \"$found\", not \"$wanted\"" >&2
        return 1
    fi
}

adaptors=$(sed -n "s/^option('adaptor_\([a-z_]*\)'.*/\1/p" "$root/meson_options.txt")
[ -n "$adaptors" ]
for adaptor in $adaptors; do
    if [ "$adaptor" = nvtx ] && ! echo '#include <nvtx3/nvToolsExt.h>' |
        cc -fsyntax-only -x c -I /usr/local/cuda/include - 2>/dev/null; then
        echo 'skipped: adaptor nvtx, without the headers of a toolkit'
        continue
    fi
    echo "only adaptor $adaptor"
    folder=$ci_root/only-$adaptor
    configure "$folder" -Dcudart=emulated -Dauto_features=disabled -Dtests=enabled \
        "-Dadaptor_$adaptor=enabled"
    compile_tests "$folder" adaptors
    expect_adaptors "$folder" "$adaptor"
    run_tests "$folder" --suite adaptors
done

echo 'no adaptor, no messages'
folder=$ci_root/no-adaptor
# Headers beside NVIDIA's are the `test` step's.
configure "$folder" -Dcudart=emulated -Dauto_features=disabled -Dtests=enabled -Dlog_level=off \
    -Dtoolkit_root=/nonexistent
compile_tests "$folder" adaptors headers
expect_adaptors "$folder" ''
run_tests "$folder" --suite adaptors --suite headers --no-suite nvcc

# Each of these brought something that is used where it exists.
for version in 12000 12050 12080; do
    echo "the CUDA interface $version"
    folder=$ci_root/cuda-$version
    configure "$folder" -Dcudart=emulated "-Dcudart-emulated:api_version=$version"
    suites=(core)
    if [ "$version" = 12000 ]; then
        suites+=(device containers)
    fi
    compile_tests "$folder" "${suites[@]}"
    run_tests "$folder" "${suites[@]/#/--suite=}"
done

echo 'no toolkit'
folder=$ci_root/no-toolkit
rm -rf "$folder"
# Not even one that was put where the compiler looks by itself.
hidden="cc -nostdinc -isystem $(cc -print-file-name=include)"
hidden+=" -isystem /usr/include/$(cc -print-multiarch) -isystem /usr/include"
unset CPATH C_INCLUDE_PATH
# shellcheck disable=SC2086 # a list of words
if echo '#include <cuda_runtime_api.h>' | $hidden -fsyntax-only -x c - 2>/dev/null; then
    echo 'a toolkit is in /usr/include: what a machine without one does cannot be seen here' >&2
    exit 1
fi
# As a part of the compiler: Meson takes folders out of CFLAGS that are searched anyway.
CC=$hidden configure "$folder" -Dcudart=auto -Dtoolkit_root=/nonexistent \
    -Dauto_features=disabled
grep -q 'WARNING: no CUDA toolkit found' "$folder.setup.log"
grep -q 'CUDA runtime *: emulated' "$folder.setup.log"
compile "$folder"
rm -rf "$folder"
if CC=$hidden configure "$folder" -Dcudart=toolkit -Dtoolkit_root=/nonexistent 2>/dev/null; then
    echo '-Dcudart=toolkit does without a toolkit' >&2
    exit 1
fi
