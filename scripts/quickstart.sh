#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets everything up, builds crmm and runs its main job: which memory resource serves these programs
# best? The programs are two recorded traces, from a data-processing job and from training a
# network.
#
# usage: scripts/quickstart.sh [argument of crmm-replay]...
#
# On a GPU where there is one and a CUDA toolkit; else on the emulated CUDA runtime, where times
# mean nothing and sizes are true.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/dependencies.sh"

# Of the first GPU.
free_mib() {
    nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits | head -n 1
}

if has_gpu && has_toolkit; then
    echo 'building for the GPU, with the CUDA toolkit'
    folder=$build_root/quickstart-gpu
    configure "$folder" -Dcudart=toolkit -Dtoolkit_root="$toolkit" -Dtests=disabled -Dtools=enabled
else
    echo 'building with the emulated CUDA runtime: it needs no GPU and uses none'
    folder=$build_root/quickstart-emulated
    configure "$folder" -Dcudart=emulated -Dtests=disabled -Dtools=enabled
    # More than the traces need; the memory is only reserved.
    export CUDART_EMULATED_MEMORY=${CUDART_EMULATED_MEMORY:-160GiB}
fi
compile "$folder"

if [ $# -eq 0 ]; then
    set -- "$root/benchmarks/traces/resnet_train.csv.gz"
    # The other needs 18 GiB at once.
    if [ "$folder" = "$build_root/quickstart-emulated" ] || [ "$(free_mib)" -ge 20480 ]; then
        set -- "$root/benchmarks/traces/etl.csv.gz" "$@"
    else
        echo 'etl.csv.gz is left out: the GPU has less than 20 GiB free'
    fi
fi
"$folder/tools/crmm-replay" "$@"
