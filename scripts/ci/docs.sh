#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The reference manual, where everything public must be documented, and the links of the guides.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

folder=$ci_root/docs
configure "$folder" -Dcudart=emulated -Dtests=disabled -Ddocs=enabled
ninja -C "$folder" doc >"$folder/doc.log" 2>&1 || {
    cat "$folder/doc.log" >&2
    exit 1
}
"$root/scripts/ci/links.py" "$root"
