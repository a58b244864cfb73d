#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The suites under valgrind's memcheck. Left out is what takes long and runs no other code: the pool's
# model, what repeats the others, and the tests of the emulation, which is below all of them.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

folder=$build_root/test
configure_for_tests "$folder"
compile "$folder"

# The exit status of a test's own process is lost on the way to Meson, so the logs decide. Shells and
# other programs of the system are not ours to check.
reports=$ci_root/valgrind-reports
rm -rf "$reports"
mkdir -p "$reports"
wrapper="valgrind --trace-children=yes --trace-children-skip=/usr/bin/*,/bin/*,*/python3*"
wrapper+=" --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite"
wrapper+=" --log-file=$reports/%p.log"
# Most of the time is spent on a process's start: translating code that runs once, and reading symbols.
# Reports name lines all the same.
wrapper+=" --vex-guest-chase=no --read-inline-info=no"

# Half of a start is that of libgit2 and the libraries which that needs; Criterion has it for one thing,
# to show how two strings differ. Here one that can do nothing takes its place.
light=$ci_root/without-libgit2
rm -rf "$light"
mkdir -p "$light"
criterion=$(ldd "$folder/tests/test-core-error" | sed -n 's/.* => \(.*libcriterion[^ ]*\) .*/\1/p')
git=${criterion:+$(ldd "$criterion" | sed -n 's/[[:space:]]*\(libgit2[^ ]*\) => .*/\1/p')}
if [ -n "$git" ]; then
    nm -D --undefined-only "$criterion" | sed -n 's/.* U \(git_[a-z0-9_]*\)$/int \1(void) { return -1; }/p' |
        cc -shared -fPIC -Wl,-soname,"$git" -o "$light/$git" -x c -
    export LD_LIBRARY_PATH=$light${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
status=0
run_tests "$folder" --wrap "$wrapper" --timeout-multiplier 10 --suite crmm --no-suite headers \
    --no-suite pool-model --no-suite repeats || status=1
# The shell that runs a script is under valgrind too; each report names its program.
ours=$(grep -rl "^==[0-9]*== Command: $folder/" "$reports" | wc -l)
grep -rL "^==[0-9]*== Command: $folder/" "$reports" | xargs -r rm
echo "$ours processes were checked"
[ "$ours" -gt 0 ]
fail_on_files "$reports" 'valgrind' 'are definitely lost|Invalid|ninitialised|Mismatched free|overlap|.impossible. happened'
exit "$status"
