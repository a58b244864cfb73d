#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The README's first command, as a user runs it.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

"$root/scripts/quickstart.sh"
