#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs Criterion, zlib and cJSON with what they need, so that run.sh can build and run the tests on
# a machine with a GPU that has none of them and no network.
#
# usage: tests/gpu/bundle.sh
#
# Run it where the packages are installed. It fills .gpu/ in the source folder, which git ignores;
# carry that along with the sources.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

"$root/scripts/dependencies.sh"

# pack NAME LIBRARY HEADER...: HEADER as it is included.
pack() {
    local name=$1 library=$2 target=$root/.gpu/$1
    shift 2
    rm -rf "$target"
    mkdir -p "$target/include" "$target/lib/pkgconfig"

    local header folder
    for header in "$@"; do
        # Where the compiler finds it, multiarch folders included.
        folder=$(echo "#include <$header>" | cc -M -x c - | tr ' ' '\n' | grep -m1 "/$header\$")
        folder=${folder%"$header"}
        case $header in
        */*) cp -R "$folder${header%%/*}" "$target/include/" ;;
        *) cp "$folder$header" "$target/include/" ;;
        esac
    done

    local libdir file soname
    libdir=$(pkg-config --variable=libdir "$name")
    file=$(readlink -f "$libdir/lib$library.so")
    soname=$(readelf -d "$file" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    cp "$file" "$target/lib/$soname"
    ln -s "$soname" "$target/lib/lib$library.so"
    # What it needs beyond the C library.
    ldd "$file" | awk '/=> \//{ print $3 }' |
        { grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv)\.so|ld-linux' || true; } |
        while read -r needed; do
            cp -L "$needed" "$target/lib/"
        done

    # The run path is of the old kind, which also serves what the library itself needs;
    # LD_LIBRARY_PATH would serve every other program of that machine too.
    cat >"$target/lib/pkgconfig/$name.pc" <<PC
prefix=\${pcfiledir}/../..
libdir=\${prefix}/lib
Name: $name
Description: relocated $name
Version: $(pkg-config --modversion "$name")
Libs: -L\${libdir} -Wl,--disable-new-dtags -Wl,-rpath,\${libdir} -l$library
Cflags: -I\${prefix}/include
PC
    echo "packed $name $(pkg-config --modversion "$name")"
}

pack criterion criterion criterion/criterion.h
pack zlib z zlib.h zconf.h
pack libcjson cjson cjson/cJSON.h
du -sh "$root/.gpu"
