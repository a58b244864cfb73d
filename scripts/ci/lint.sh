#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Format, static analysis and licences.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

cd "$root"
status=0

# tracked PATTERN...: our files, one per line; a release without git has no others.
tracked() {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -- "$@"
    else
        find . -name build -prune -o -type f -print | sed 's|^\./||' |
            grep -E "$(printf '%s\n' "$@" | sed 's/\./\\./g; s/\*/.*/g' | paste -sd '|')"
    fi
}

echo '--- format'
mapfile -t sources < <(tracked '*.c' '*.h' '*.cpp' '*.hpp' '*.cu')
[ ${#sources[@]} -gt 0 ]
clang-format-14 --dry-run --Werror "${sources[@]}" || status=1

echo '--- licences'
mapfile -t all < <(tracked '*.c' '*.h' '*.cpp' '*.hpp' '*.cu' '*.sh' '*.py' '*.in' '*meson.build' \
    '*meson_options.txt' '.ci/run')
without=$(grep -L 'SPDX-License-Identifier: Apache-2.0' "${all[@]}" || true)
if [ -n "$without" ]; then
    echo "no SPDX line: $without" >&2
    status=1
fi

echo '--- shellcheck'
mapfile -t scripts < <(tracked '*.sh' '.ci/run')
shellcheck -x "${scripts[@]}" || status=1

folder=$clang_folder
configure_clang
# Nothing needs to be built: what is generated, the setup generates.

echo '--- clang-tidy'
ours="$root/(core|host|device|adaptors|containers|tools)/.*"
run-clang-tidy-14 -quiet -p "$folder" "$ours" >"$folder/tidy.log" 2>"$folder/tidy.errors" || {
    # Without colours, and without the commands.
    sed 's/\x1b\[[0-9;]*m//g' "$folder/tidy.log" | grep -v '^clang-tidy-14 ' >&2
    status=1
}
grep -q 'clang-tidy-14' "$folder/tidy.log" # that it looked at something

echo '--- cppcheck'
cppcheck --quiet --project="$folder/compile_commands.json" --enable=warning,performance,portability \
    --inline-suppr --suppress=missingIncludeSystem --error-exitcode=3 -D__GNUC__=12 \
    -i "$root/tests" -i "$root/subprojects" -j 2 || status=1

exit "$status"
