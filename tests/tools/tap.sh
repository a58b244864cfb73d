# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What the scripts here share: running the program, and checks that print TAP. `program` is set.

count=0
failed=0
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
trap 'exit 99' INT TERM

# run ARGUMENT...: sets `status`, and leaves $folder/out and $folder/err.
run() {
    run_with /dev/null "$@"
}

# run_with INPUT ARGUMENT...: the same with a standard input.
run_with() {
    input_=$1
    shift
    ran=$*
    # shellcheck disable=SC2154 # set by those who source this
    "$program" "$@" <"$input_" >"$folder/out" 2>"$folder/err"
    status=$?
}

# check NAME: whether the command before it succeeded.
check() {
    result_=$?
    count=$((count + 1))
    if [ "$result_" -eq 0 ]; then
        echo "ok $count - $1"
        return
    fi
    failed=$((failed + 1))
    echo "not ok $count - $1"
    echo "# crmm-replay $ran: exit status $status"
    sed 's/^/# out: /' "$folder/out"
    sed 's/^/# err: /' "$folder/err"
}

expect_status() {
    [ "$status" -eq "$1" ]
    check "$2: exit status $1"
}

# expect_lines out|err COUNT NAME
expect_lines() {
    [ "$(wc -l <"$folder/$1")" -eq "$2" ]
    check "$3"
}

# expect_line out|err NUMBER PATTERN NAME
expect_line() {
    sed -n "$2p" "$folder/$1" | grep -q -e "$3"
    check "$4"
}

# expect_some out|err PATTERN NAME: a line, wherever it is.
expect_some() {
    grep -q -e "$2" "$folder/$1"
    check "$3"
}

finish() {
    echo "1..$count"
    [ "$failed" -eq 0 ]
    exit
}
