#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# crmm-replay as a user runs it: exit status, output, messages. Prints TAP.
#
# usage: command.sh PROGRAM TRACES RESOURCE
#
# The bundled TRACES go through RESOURCE, the rest only through malloc, which needs no device.
program=$1
traces=$2
resource=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

rows='time_us,action,id,bytes,stream
0,alloc,0,512,1
1,alloc,1,1024,2
2,free,0,512,1
3,free,1,1024,2'

# ---- the main job ----

run --json --resource "$resource" "$traces/etl.csv.gz" "$traces/resnet_train.csv.gz"
expect_status 0 'both bundled traces replay'
expect_lines out 2 'one JSON object a line and replay'
expect_line out 1 '^{"trace":"[^"]*etl.csv.gz","resource":"'"$resource"'","calls":42988,"ns_per_call":[0-9.e+]*,"peak_live_bytes":18992397367,"peak_held_bytes":18992397367,"held_over_live":1,"failed_row":null}$' 'the figures of etl, to the byte'
expect_line out 2 '"calls":150559,.*"peak_live_bytes":7503740968,"peak_held_bytes":7503740968,' 'the figures of resnet_train, to the byte'

run --resource "$resource" "$traces/etl.csv.gz"
expect_status 0 'without --json'
expect_line out 1 '^trace *resource *calls *ns/call *peak live *peak held *held/live *failed row$' 'a table with headings'
expect_line out 2 "$resource *42988 *[0-9]* *17\.69 GiB *17\.69 GiB *1\.000 *-\$" 'and units a person reads'
expect_lines err 0 'nothing on standard error where that is no terminal'

run --json --repeat 3 --resource "$resource" "$traces/etl.csv.gz"
expect_status 0 '--repeat'
expect_lines out 1 'reports one of the runs'

# ---- input ----

printf '%s\n' "$rows" >"$folder/plain.csv"
gzip -c "$folder/plain.csv" >"$folder/packed.csv.gz"
for input in plain.csv packed.csv.gz; do
    run --json --resource malloc "$folder/$input"
    expect_status 0 "$input is read"
    expect_line out 1 '"calls":4,.*"peak_live_bytes":1536,' "$input has its figures"
    run_with "$folder/$input" --json --resource malloc -
    expect_status 0 "$input is read from standard input"
    expect_line out 1 '^{"trace":"-",.*"calls":4,.*"peak_live_bytes":1536,' "$input has its figures there"
done

cat >"$folder/rmm.csv" <<'EOF'
Thread,Time,Action,Pointer,Size,Stream
11,23:59:59.999998,allocate,0x7f00,512,0x55d0c0ffee10
12,23:59:59.999999,allocate,0x7e00,1024,0x1
12,00:00:00.000000,free,0x7f00,512,0x2
12,00:00:00.000001,allocate failure,(nil),4096,0
11,00:00:00.000002,allocate,0x7f00,256,0
EOF
run --json --resource malloc "$folder/rmm.csv"
expect_status 0 'the log of RMM is read'
expect_line out 1 '"calls":5,.*"peak_live_bytes":1536,.*"failed_row":null' 'and has its figures'

run --resource malloc "$traces/resnet_train.streams.csv.gz"
expect_status 2 'a side file is no trace'
expect_line err 1 'resnet_train.streams.csv.gz: this is not a trace but the stream uses' 'and that is said'

printf '%s\n5,free,2,8,0\n' "$rows" >"$folder/malformed.csv"
run --json --resource malloc "$folder/plain.csv" "$folder/malformed.csv"
expect_status 2 'a malformed row'
expect_line err 1 "$folder/malformed.csv:6: free of id 2, which has no alloc\$" 'names file, line and reason'
expect_lines out 0 'before anything is replayed'

printf '%s\n' "$rows" | sed 's/1024,2$/1024,x/' >"$folder/malformed.csv"
run_with "$folder/malformed.csv" --resource malloc -
expect_status 2 'a malformed row of standard input'
expect_line err 1 'crmm-replay: -:3: stream "x" is not a number' 'is named as well'

run --resource malloc "$folder/missing.csv"
expect_status 2 'a file that is not there'
expect_line err 1 'missing.csv: cannot be opened: No such file' 'is named'

# ---- usage ----

run
expect_status 2 'no TRACE'
run --resource malloc - -
expect_status 2 'standard input twice'
run --unknown "$folder/plain.csv"
expect_status 2 'an unknown option'
run --repeat 0 "$folder/plain.csv"
expect_status 2 '--repeat 0'
run --repeat x "$folder/plain.csv"
expect_status 2 '--repeat x'

run --resource nonesuch "$folder/plain.csv"
expect_status 2 'an unknown class'
expect_line err 1 'SPEC "nonesuch": part 1: no class "nonesuch"' 'is named'
run --resource malloc:size=1 "$folder/plain.csv"
expect_status 2 'an unknown option of a class'
expect_line err 1 'malloc has no option "size"' 'is named'
run --resource malloc+malloc "$folder/plain.csv"
expect_status 2 'a leaf with an upstream'

run --help
expect_status 0 '--help'
expect_line out 1 '^Usage: crmm-replay ' 'prints the usage'
run --version
expect_status 0 '--version'
expect_line out 1 '^crmm-replay [0-9]*\.[0-9]*\.[0-9]*$' 'prints the version'

run --list
expect_status 0 '--list'
for class in cuda managed malloc pinned_host; do
    expect_some out "^$class  " "lists $class"
done

if [ -w /dev/full ]; then
    "$program" --resource malloc "$folder/plain.csv" >/dev/full 2>"$folder/err"
    status=$?
    expect_status 1 'a report that cannot be written'
    expect_line err 1 '^crmm-replay: the output cannot be written$' 'is told of'
    "$program" --json --resource malloc "$folder/plain.csv" >/dev/full 2>"$folder/err"
    status=$?
    expect_status 1 'a JSON report that cannot be written'
    expect_line err 1 '^crmm-replay: the output cannot be written$' 'is told of too'
fi

# ---- what fails ----

# Not in every build.
if "$program" --list | grep -q '^limiting '; then
    run --list
    expect_some out '^    allocation_limit=SIZE .*(required)$' 'lists fixed parameters'
    expect_some out '^    alignment=SIZE ' 'lists options'

    # User report 71: the exit status was always 0, and the failing row not named.
    run --json --resource limiting:allocation_limit=1KiB+malloc "$folder/plain.csv"
    expect_status 1 'an allocation that fails'
    expect_line err 1 'plain.csv:3: limiting:allocation_limit=1KiB+malloc: allocation of 1024 bytes (1.00 KiB) on stream 2 failed$' 'names its row'
    expect_some err 'error: CRMM_ERROR_LIMIT_EXCEEDED ' 'has the error record'
    expect_some err 'resource: limiting_resource_adaptor (limit 1024, allocated 512)' 'has the description'
    expect_some err '^ *live *512 ' 'has the figures'
    expect_line out 1 '"calls":2,.*"peak_live_bytes":512,.*"failed_row":3}$' 'and is in the report'

    # User report 71, as RMM records a failure.
    run --json --resource limiting:allocation_limit=2KiB+malloc "$folder/rmm.csv"
    expect_status 1 'an attempt that fails again'
    expect_line out 1 '"failed_row":5}$' 'names its row'

    run --json --resource limiting:allocation_limit=1KiB+malloc --resource malloc \
        "$folder/plain.csv" "$folder/rmm.csv"
    expect_status 1 'one failure of several replays'
    expect_lines out 4 'does not keep the others from being replayed'

    run --resource limiting:allocation_limit=1KB "$folder/plain.csv"
    expect_status 2 'a value that is none'
    expect_line err 1 'option allocation_limit of limiting cannot be "1KB"' 'is named'
    run --resource limiting "$folder/plain.csv"
    expect_status 2 'a fixed parameter that is missing'
    expect_line err 1 'limiting needs allocation_limit=' 'is named'
    run --resource limiting:allocation_limit=1KiB,alignment=3+malloc "$folder/plain.csv"
    expect_status 2 'a value that the class refuses'
    expect_line err 1 'alignment 3 is not a power of two' 'is named'
fi

finish
