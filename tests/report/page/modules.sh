#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the pages' modules with node. usage: modules.sh PAGES FILES     exit 77: skipped, with the reason
set -u
skip() {
  echo "SKIPPED: report.modules, because $1 is missing"
  exit 77
}
command -v node > /dev/null || skip node
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || skip "node 20 or later (this is $(node --version))"
exec node "$(dirname "$0")/modules.mjs" "$@"
