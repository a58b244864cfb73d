#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What crmm-replay says was held is what the emulated CUDA runtime counted by itself. Prints TAP.
#
# usage: emulation_held.sh PROGRAM TRACES
program=$1
traces=$2
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

export CUDART_EMULATED_MEMORY=160GiB
export CUDART_EMULATED_REPORT="$folder/report"

# A figure of the report or of the output, by its key.
figure() {
    sed "s/.*\"$1\": *\\([0-9]*\\).*/\\1/" "$2"
}

for resource in cuda_async cuda managed; do
    for trace in etl resnet_train; do
        rm -f "$folder/report"
        run --json --resource "$resource" "$traces/$trace.csv.gz"
        expect_status 0 "$trace through $resource"
        [ "$(figure peak_held_bytes "$folder/out")" = "$(figure peak_physical_bytes "$folder/report")" ]
        check 'what was held is the peak of the device'
        [ "$(figure physical_bytes "$folder/report")" = 0 ]
        check 'all was given back'
        grep -q '"violations": 0' "$folder/report"
        check 'the rules of CUDA were kept'
    done
done
expect_line out 1 '"peak_live_bytes":7503740968,"peak_held_bytes":7503740968,' 'and it is the right figure'

run --json --resource pinned_host "$traces/etl.csv.gz"
expect_status 0 'etl through pinned_host'
[ "$(figure peak_held_bytes "$folder/out")" = "$(figure peak_pinned_bytes "$folder/report")" ]
check 'what was held is the peak of page-locked memory'

# User report 71, and 9: which resource survives this trace is a question of one command.
cat >"$folder/two_streams.csv" <<'EOF'
time_us,action,id,bytes,stream
0,alloc,0,1073741824,1
1,alloc,1,1099511627776,2
2,free,0,1073741824,1
EOF
run --json --resource cuda "$folder/two_streams.csv"
expect_status 1 'more than the device has'
expect_line err 1 'two_streams.csv:3: cuda: allocation of 1099511627776 bytes' 'names the row'
expect_some err 'error: CRMM_ERROR_OUT_OF_MEMORY ' 'says why'
expect_line out 1 '"peak_live_bytes":1073741824,"peak_held_bytes":1073741824,.*"failed_row":3}$' 'what was held until then'

# Without --resource, all that stands alone is compared.
printf 'time_us,action,id,bytes,stream\n0,alloc,0,512,1\n' >"$folder/one.csv"
run --json "$folder/one.csv"
expect_status 0 'everything is compared'
for resource in cuda managed malloc pinned_host cuda_async; do
    expect_some out "\"resource\":\"$resource\"" "$resource is among it"
done

printf 'time_us,action,id,bytes,stream\n0,alloc,0,9223372036854775807,1\n' >"$folder/huge.csv"
run --json "$folder/huge.csv"
expect_status 1 'more than any machine has'
expect_some err 'pinned_host is left out: .*huge.csv would lock 8388608.00 TiB' 'the memory of the machine is not locked for it'

finish
