#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs that use an installed crmm, or have it as a subproject.
# shellcheck source=scripts/ci/common.sh
. "$(dirname "$0")/common.sh"

"$root/tests/consumers/run.sh" "$ci_root/consumers"
