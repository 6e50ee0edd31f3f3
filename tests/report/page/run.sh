#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Looks at report.html with the system's Chromium: what leaves the page, and what an address brings back.
# usage: run.sh PROGRAM      PROGRAM: sluice-compare. Exit 77: skipped, and said why
set -u
here=$(cd "$(dirname "$0")" && pwd)

skip() {
  echo "SKIPPED: report.page, for want of $1"
  exit 77
}

command -v node > /dev/null || skip node
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || skip "node 20 or later (this is $(node --version))"
CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip chromium
export CHROMIUM
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" --quiet --generate demo:requests=12 --slo-scale 1.5,2 --seeds 1..3 --systems OneAtATime,VllmSwap,OrbitFlow,SuperInfer --out "$folder" > /dev/null ||
  exit 1
SLUICE_REPORT=$folder node --test --test-reporter=spec "$here/page.test.mjs"
