#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the result pages with the system's Chromium: the files that they save, and the view that an address restores.
# usage: run.sh COMPARE EXPLORE      sluice-compare and sluice-explore. Exit 77: skipped, with the reason
set -u
here=$(cd "$(dirname "$0")" && pwd)

skip() {
  echo "SKIPPED: report.page, because $1 is missing"
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
"$1" --quiet --generate demo:requests=8 --kv-blocks 300,600 --batch 2,4 --rate-scale 1,2 --slo-scale 1.5,2 --seeds 1..3 \
  --systems OneAtATime,VllmSwap,OrbitFlow --out "$folder/grid" > /dev/null || exit 1
"$1" --quiet --generate demo:requests=12 --kv-blocks 400,800 --capacity 0.5 --seeds 1..3 --systems OneAtATime,VllmSwap,OrbitFlow \
  --out "$folder/capacity" > /dev/null || exit 1
"$2" --quiet --generate 'poisson:rate=2,requests=6,prompt=uniform(100,400),output=uniform(20,60)' --kv-blocks 60 --batch 4 --slo-tbt 0.02 --seeds 1..3 \
  --systems OneAtATime,VllmRecompute,VllmSwap,DynamicHeuristic,OrbitFlow,Confluence --out "$folder/explore" > /dev/null || exit 1
"$1" --quiet --generate demo:rate=0.3,requests=12 --systems OneAtATime,VllmSwap,OrbitFlow --deposit off --out "$folder/slow" > /dev/null || exit 1
"$1" --quiet --generate demo:requests=4 --device a5000,a10 --seeds 1..3 --systems VllmSwap,OrbitFlow --deposit off --out "$folder/names" > /dev/null ||
  exit 1
export SLUICE_REPORT=$folder
node --test --test-reporter=spec "$here/page.test.mjs" && node --test --test-reporter=spec "$here/pages.test.mjs"
