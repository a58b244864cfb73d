#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs that use crmm from outside: by pkg-config from an installed prefix, and as a Meson
# subproject.
#
# usage: tests/consumers/run.sh FOLDER
#
# FOLDER is for what is built, and is emptied first.
# shellcheck disable=SC2317 # check() calls functions that look unused
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

here=$root/tests/consumers
work=${1:?usage: tests/consumers/run.sh FOLDER}
rm -rf "$work"
mkdir -p "$work"
cd "$work"
flags=(-Wall -Wextra -Werror)
failed=0

# check WHAT COMMAND...: run it, and say what it was for.
check() {
    local what=$1
    shift
    if "$@" >check.log 2>&1; then
        echo "ok: $what"
    else
        echo "FAILED: $what: $*" >&2
        cat check.log >&2
        failed=1
    fi
}

# not COMMAND...: succeed where it fails.
not() {
    ! "$@"
}

# pc PREFIX ARGUMENT...: ask that prefix's .pc files.
pc() {
    local prefix=$1
    shift
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@"
}

# build_with PREFIX PACKAGES OUTPUT COMPILER ARGUMENT...: the line that the manual gives.
build_with() {
    local prefix=$1 packages=$2 output=$3
    shift 3
    # shellcheck disable=SC2046,SC2086 # lists of words
    "$@" "${flags[@]}" -o "$output" $(pc "$prefix" --cflags --libs $packages)
}

needs() { # PROGRAM: the shared objects it names
    readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
}

for kind in static shared both; do
    configure "$work/build-$kind" -Dcudart=emulated -Dauto_features=disabled \
        -Dadaptor_limiting=enabled -Ddefault_library="$kind" -Dprefix="$work/$kind" -Dlibdir=lib
    compile "$work/build-$kind"
    meson install -C "$work/build-$kind" --quiet
    export LD_LIBRARY_PATH=$work/$kind/lib

    check "$kind: C by pkg-config" build_with "$work/$kind" crmm "app-$kind" cc "$here/app.c"
    check "$kind: C runs" "./app-$kind"
    check "$kind: C++ by pkg-config" build_with "$work/$kind" crmm "app-$kind-c++" c++ "$here/app.cpp"
    check "$kind: C++ runs" "./app-$kind-c++"
    check "$kind: crmm.hpp by pkg-config" build_with "$work/$kind" crmm "app-$kind-hpp" c++ \
        -std=c++17 "$here/app_hpp.cpp"
    check "$kind: crmm.hpp runs" "./app-$kind-hpp"
    check "$kind: no header is missing" cmp <(cd "$work/$kind/include" && find . -name '*.h*' | sort) \
        <(cd "$work/static/include" && find . -name '*.h*' | sort)
    check "$kind: no other header is installed" not grep -rlE --exclude=cuda_mr.hpp \
        'include [<"](cuda|crmm/internal)' "$work/$kind/include"
    for module in core host device adaptors containers; do
        check "$kind: crmm-$module by itself" build_with "$work/$kind" "crmm-$module" "app-module" cc \
            "$here/wrap/core.c"
    done
    check "$kind: says which adaptors it has" test "$(pc "$work/$kind" --variable=adaptor_limiting crmm)" = true
    check "$kind: says which runtime it has" test "$(pc "$work/$kind" --variable=cuda_runtime crmm)" = emulated
    check "$kind: no path of the build is installed" not grep -rl "$work/build-$kind" \
        "$work/$kind/lib/pkgconfig" "$work/$kind/include"
done
unset LD_LIBRARY_PATH

check 'static: does not need libcrmm.so' not grep -q libcrmm <(needs app-static)
check 'shared: needs libcrmm.so.0' grep -qx libcrmm.so.0 <(needs app-shared)
check 'both: needs libcrmm.so.0' grep -qx libcrmm.so.0 <(needs app-both)
check 'both: crmm-static by pkg-config' build_with "$work/both" crmm-static app-both-static cc \
    "$here/app.c"
check 'both: crmm-static does not need libcrmm.so' not grep -q libcrmm <(needs app-both-static)
check 'both: crmm-static runs' ./app-both-static

echo '--- what libcrmm.so exports'
library=$work/shared/lib/libcrmm.so.0
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >exported
check 'exports something' test -s exported
check 'exports only crmm_*' not grep -vE '^crmm_' exported
check 'exports nothing private' not grep -E '^crmm_priv' exported
# Every function that the headers declare, those with an inline definition too.
echo '#include <crmm/crmm.h>
#include <crmm/interfaces/resource.h>' >declared.c
# shellcheck disable=SC2046 # a list of words
cc -DCRMM_NO_INLINE -aux-info declared.txt -fsyntax-only $(pc "$work/shared" --cflags crmm) declared.c
sed -n 's|^/\* [^ ]*/crmm/[^ ]* \*/ extern .*[ *]\(crmm_[a-z0-9_]*\) (.*|\1|p' declared.txt | sort -u >declared
check 'the headers declare something' test -s declared
check 'exports what the headers declare, and nothing else' diff declared exported

echo '--- one state or two'
static=$work/static
shared=$work/shared
check 'a shared object with the archives' build_with "$static" crmm libstate.so \
    cc -shared -fPIC "$here/state.c"
check 'a shared object on libcrmm.so' build_with "$shared" crmm libstate-shared.so \
    cc -shared -fPIC "$here/state.c"
check 'a program with the archives' build_with "$static" crmm linked \
    cc "$here/sharing.c" -L. -lstate -Wl,-rpath,"$work"
check 'a host with the archives' build_with "$static" crmm host \
    cc -DPLUG_IN "$here/sharing.c" -ldl
check 'a host on libcrmm.so' build_with "$shared" crmm host-shared \
    cc -DPLUG_IN "$here/sharing.c" -ldl -Wl,-rpath,"$shared/lib"

check 'archives in a program and in what it is linked to are one' ./linked one
check 'a plug-in with archives has a state of its own' ./host two ./libstate.so
check 'a plug-in on libcrmm.so shares it' env LD_LIBRARY_PATH="$shared/lib" \
    ./host-shared one ./libstate-shared.so
# That the program can tell the difference.
check 'two are not taken for one' not ./host one ./libstate.so

echo '--- a Meson subproject'
cp -r "$here/wrap" wrap
cp "$here/app.c" wrap/
mkdir -p wrap/subprojects/crmm
mv wrap/crmm.wrap wrap/subprojects/
(cd "$root" && tar -cf - --exclude=./build --exclude='./build-*' --exclude=./.git --exclude=./.gpu .) |
    tar -xf - -C wrap/subprojects/crmm
check 'subproject: configures' meson setup wrap-build wrap -Dcrmm:werror=true
check 'subproject: builds' ninja -C wrap-build
check 'subproject: runs' meson test -C wrap-build --no-suite crmm --no-suite cudart-emulated

exit "$failed"
