#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the live page of sluice-serve in the system's Chromium.
# usage: run.sh PROGRAM      exit 77: skipped, with the reason printed
set -u
here=$(cd "$(dirname "$0")" && pwd)

skip() {
  echo "SKIPPED: serve.live, for want of $1"
  exit 77
}

command -v node > /dev/null || skip node
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || skip "node 20 or later (this is $(node --version))"
CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip chromium
export CHROMIUM
SLUICE_SERVE=$1 exec node --test --test-reporter=spec "$here/live.test.mjs"
