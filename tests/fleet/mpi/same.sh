#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# same.sh PROGRAM: one process, one rank, two and three ranks print the same line, each rank.
set -eu
alone=$("$1" alone)
echo "$alone"
for ranks in 1 2 3; do
  mpirun --allow-run-as-root --oversubscribe --bind-to none -q -n $ranks "$1" | while read -r line; do
    [ "$line" = "$alone" ] || { echo "$ranks ranks: $line"; exit 1; }
  done
  [ "$(mpirun --allow-run-as-root --oversubscribe --bind-to none -q -n $ranks "$1" | wc -l)" = $ranks ]
done
