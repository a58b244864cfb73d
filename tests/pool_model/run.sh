#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pool model at length: every configuration of default, small and no caches, those in which some
# streams give back what others take, and those of large blocks, of several streams and of one alone.
#
# usage: run.sh [BUILD_DIR [SEEDS [OPERATIONS]]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${1:-$root/build/pool-model}
seeds=${2:-1000}
operations=${3:-60000}

if [ ! -f "$folder/build.ninja" ]; then
    meson setup "$folder" "$root" -Dcudart=emulated -Dtests=enabled >/dev/null
fi
ninja -C "$folder" tests/pool_model/pool-model >/dev/null

# One process for each, as many at a time as there are processors.
printf '%s\n' default tiny off passing large lone | xargs -P "$(nproc)" -I{} \
    "$folder/tests/pool_model/pool-model" --seeds "$seeds" --operations "$operations" \
    --configuration {}
