#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What logging_resource_adaptor writes, crmm-replay reads, and converts. Prints TAP.
#
# usage: log.sh PROGRAM TRACES RESOURCE
program=$1
traces=$2
resource=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

# A figure of the output, by its key.
figure() {
    sed "s/.*\"$1\": *\\([0-9]*\\).*/\\1/" "$folder/out"
}

# A log without its times.
untimed() {
    cut -d , -f 1,3- "$1"
}

# ---- a log replays to what was logged ----

for trace in etl resnet_train; do
    run --json --resource "$resource" "$traces/$trace.csv.gz"
    expect_status 0 "$trace"
    live=$(figure peak_live_bytes)
    calls=$(figure calls)

    text=$folder/$trace.csv
    binary=$folder/$trace.log
    run --json --resource "logging:file_name=$text+logging:binary=1,file_name=$binary+$resource" \
        "$traces/$trace.csv.gz"
    expect_status 0 "$trace through two logs, of either form"
    [ "$(figure peak_live_bytes)" = "$live" ]
    check 'changes nothing'
    [ "$(head -n 1 "$text")" = Thread,Time,Action,Pointer,Size,Stream ]
    check 'the text begins with the header'
    # What a trace leaves allocated is given back at its end, which is logged.
    rows=$(($(wc -l <"$text") - 1))
    [ "$rows" -ge "$calls" ] && [ "$rows" -lt $((calls + 10)) ]
    check 'there is a row for each call'

    for log in "$text" "$binary"; do
        run --json --resource "$resource" "$log"
        expect_status 0 "the log $log"
        [ "$(figure peak_live_bytes)" = "$live" ]
        check 'replays to the same peak'
        [ "$(figure calls)" = "$rows" ]
        check 'in as many calls'
    done

    run --convert="$folder/converted.csv" "$binary"
    expect_status 0 'converting the binary log'
    untimed "$text" >"$folder/text.untimed"
    untimed "$folder/converted.csv" >"$folder/converted.untimed"
    cmp -s "$folder/text.untimed" "$folder/converted.untimed"
    check 'gives the text'
    ! cut -d , -f 2 "$folder/converted.csv" | tail -n +2 |
        grep -qv '^[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]\{6\}$'
    check 'with times'
    [ "$(cut -d , -f 2 "$text" | sed -n '2s/:.*//p')" = \
        "$(cut -d , -f 2 "$folder/converted.csv" | sed -n '2s/:.*//p')" ] ||
        [ "$(date +%M)" = 00 ]
    check 'of the same hour'
    [ "$(wc -c <"$binary")" -lt $(($(wc -c <"$text") / 3)) ]
    check 'the binary form is less than a third of the text'
done
[ "$(sed -n 's/.*,allocate,.*/&/p' "$folder/etl.csv" | wc -l)" = 21494 ]
check 'as many allocations as etl has'

# ---- converting ----

run --convert - "$folder/etl.log"
expect_status 0 'converting to standard output'
[ "$(wc -l <"$folder/out")" = "$(wc -l <"$folder/etl.csv")" ]
check 'writes all rows'
gzip -c "$folder/etl.log" >"$folder/etl.log.gz"
run_with "$folder/etl.log.gz" -c "$folder/converted.csv" -
expect_status 0 'a log that is compressed, from standard input'
[ "$(wc -l <"$folder/converted.csv")" = "$(wc -l <"$folder/etl.csv")" ]
check 'is converted'

run --convert "$folder/x.csv" "$folder/etl.csv"
expect_status 2 'a log that is text'
expect_line err 1 'etl.csv:1: this is not a binary log of crmm$' 'is named'
[ ! -e "$folder/x.csv" ]
check 'nothing is written'
run --convert "$folder/x.csv" "$folder/missing.log"
expect_status 2 'a log that is not there'
expect_line err 1 'missing.log: cannot be opened: No such file' 'is named'
run --convert "$folder/etl.log" "$folder/etl.log"
expect_status 1 'a log into itself'
expect_line err 1 'etl.log: cannot be converted into itself$' 'is refused'
run --resource "$resource" "$folder/etl.log"
expect_status 0 'and left as it is'
run --convert "$folder/no/x.csv" "$folder/etl.log"
expect_status 1 'a file that cannot be written'
expect_line err 1 'no/x.csv: cannot be written: No such file' 'is named'
run --convert "$folder/x.csv" "$folder/etl.log" "$folder/etl.log"
expect_status 2 'two logs'
expect_line err 1 '^crmm-replay: --convert takes one TRACE and no --resource$' 'are refused'
run --convert "$folder/x.csv" --resource malloc "$folder/etl.log"
expect_status 2 'a resource'
run --convert "$folder/x.csv"
expect_status 2 'no log'
if [ -w /dev/full ]; then
    run --convert /dev/full "$folder/etl.log"
    expect_status 1 'a full disk'
    expect_line err 1 '/dev/full: cannot be written: No space left' 'is named'
fi

# Its records differ in length, and each has more than one byte.
head -c $(($(wc -c <"$folder/etl.log") - 1)) "$folder/etl.log" >"$folder/cut.log"
run --convert "$folder/x.csv" "$folder/cut.log"
expect_status 2 'a log that is cut off'
expect_line err 1 'cut.log:[0-9]*: the file ends within a record$' 'is named'
[ "$(wc -l <"$folder/x.csv")" -gt 50 ]
check 'what comes before is converted'
run --resource "$resource" "$folder/cut.log"
expect_status 2 'it does not replay'

# ---- in a SPEC ----

run --resource "logging:file_name=+$resource" "$folder/etl.log"
expect_status 2 'no name'
expect_line err 1 'option file_name of logging cannot be ""; it takes text without , and +' 'is refused'
run --resource "logging:file_name=$folder/%x+$resource" "$folder/etl.log"
expect_status 2 'an unknown escape'
expect_line err 1 'none of %p, %d, %u and %%' 'is refused'
CRMM_LOG_FILE=$folder/environment.csv
export CRMM_LOG_FILE
run --resource "logging+$resource" "$folder/etl.log"
expect_status 0 'a name from the environment'
[ "$(wc -l <"$folder/environment.csv")" = "$(wc -l <"$folder/etl.csv")" ]
check 'is used'
run --resource "logging:file_name=$folder/flushed.csv,auto_flush=1+$resource" "$folder/etl.log"
expect_status 0 'auto_flush'
run --list
expect_some out '^    file_name=TEXT ' 'lists the option'

finish
