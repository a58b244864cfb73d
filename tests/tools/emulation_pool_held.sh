#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a pool holds for what recorded programs had live: at most so much. Prints TAP.
#
# usage: emulation_pool_held.sh PROGRAM TRACES
program=$1
traces=$2
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

export CUDART_EMULATED_MEMORY=160GiB
export CUDART_EMULATED_REPORT="$folder/report"

# expect_held RESOURCE PER_MILLE: peak held by peak live, for each trace.
expect_held() {
    for trace in etl resnet_train; do
        rm -f "$folder/report"
        run --json --resource "$1" "$traces/$trace.csv.gz"
        expect_status 0 "$trace through $1"
        live=$(sed 's/.*"peak_live_bytes":\([0-9]*\).*/\1/' "$folder/out")
        held=$(sed 's/.*"peak_held_bytes":\([0-9]*\).*/\1/' "$folder/out")
        [ "$live" -gt 7000000000 ] && [ "$((held * 1000))" -le "$((live * $2))" ]
        check "holds $held for $live, at most $2 to 1000"
        grep -q '"violations": 0' "$folder/report"
        check 'the rules of CUDA were kept'
    done
}

expect_held pool+vmm 1050
expect_held pool:tight=1+vmm 1020
expect_held pool+cuda 1200
expect_held pool:tight=1+cuda 1100

finish
