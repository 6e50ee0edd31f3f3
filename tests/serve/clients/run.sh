#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests sluice-serve with npm's clients in the versions of package-lock.json, installed once into the build folder.
# usage: run.sh PROGRAM FOLDER      exit 77: skipped, with the reason printed
set -u
program=$1
work=$2
here=$(cd "$(dirname "$0")" && pwd)

skip() {
  echo "SKIPPED: serve.clients, for want of $1"
  exit 77
}

command -v node > /dev/null || skip node
command -v npm > /dev/null || skip npm
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || skip "node 20 or later (this is $(node --version))"
mkdir -p "$work" || exit 1
cp "$here"/package.json "$here"/package-lock.json "$here"/*.mjs "$work" || exit 1
cd "$work" || exit 1
if ! cmp -s package-lock.json node_modules/.installed; then
  npm ci --ignore-scripts --no-audit --no-fund > npm.log 2>&1 ||
    skip "the clients: npm ci says $(grep -m 1 'npm error' npm.log || tail -n 1 npm.log)"
  cp package-lock.json node_modules/.installed
fi
SLUICE_SERVE=$program exec node --test --test-reporter=spec
