#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The plain programs that use threads, and those of the emulation, which all the others stand on,
# under ThreadSanitizer; Criterion does not work with it.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

folder=$ci_root/threads
configure "$folder" -Dcudart=emulated -Dcudart-emulated:tests=enabled -Db_sanitize=thread \
    -Db_lundef=false
suites=(threads cudart-emulated)
compile_tests "$folder" "${suites[@]}"
# That it works at all on this machine.
canary=$folder/canary
cc -fsanitize=thread -o "$canary" -x c - <<'EOF'
#include <pthread.h>
static int shared;
static void *add(void *unused)
{
    shared++;
    return unused;
}
int main(void)
{
    pthread_t thread;
    (void)pthread_create(&thread, NULL, add, NULL);
    shared++;
    return pthread_join(thread, NULL);
}
EOF
expect_found ThreadSanitizer setarch -R "$canary"

# A race ends the program with this status. Address randomisation is turned off because the
# sanitizer's fixed layout does not suit every kernel's.
TSAN_OPTIONS=exitcode=66:second_deadlock_stack=1 \
    run_tests "$folder" "${suites[@]/#/--suite=}" --timeout-multiplier 4 \
    --wrap 'setarch -R'
