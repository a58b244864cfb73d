# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the scripts here: where things are, and one way to configure a build folder.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034 # used by those who source this
build_root=$root/build
toolkit=${CUDA_HOME:-/usr/local/cuda}

# Whether there is a GPU that a driver answers for, and it is wanted.
has_gpu() {
    [ -z "${CRMM_NO_GPU:-}" ] && command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU '
}

has_toolkit() {
    [ -f "$toolkit/include/cuda_runtime_api.h" ]
}

# configure FOLDER OPTION...: set up a build folder, or bring an old one up to date. Warnings are
# errors in every build of these scripts.
configure() {
    local folder=$1 log=$1.setup.log
    shift
    mkdir -p "$(dirname "$folder")"
    local how=()
    if [ -f "$folder/build.ninja" ]; then
        how=(--reconfigure)
    elif [ -d "$folder" ]; then
        how=(--wipe) # left by a setup that failed
    fi
    if ! meson setup "${how[@]}" "$folder" "$root" -Dwerror=true "$@" >"$log" 2>&1; then
        cat "$log" >&2
        return 1
    fi
    grep -E 'WARNING|CUDA runtime' "$log" || true
}

# configure_for_tests FOLDER: what the tests run on where there is no GPU.
configure_for_tests() {
    configure "$1" -Dcudart=emulated -Dtests=enabled -Dtools=enabled -Dcudart-emulated:tests=enabled
}

# compile FOLDER [TARGET]...: build these or all of it, quietly if it works.
compile() {
    local log=$1.compile.log
    if ! ninja -C "$@" >"$log" 2>&1; then
        # Only what failed.
        grep -vE '^\[[0-9]+/[0-9]+\] ' "$log" | head -n 50 >&2
        return 1
    fi
}
