#!/bin/sh
# Fails where a function of a g++ program that reads memory does not ask for what comes: g++ 12 drops prefetches that stand
# in a function which it might not inline (model/decoder/eigen/lanes.hpp, ask_for), and nothing else shows it.
# usage: asks_ahead.sh OBJDUMP PROGRAM
"$1" -d --no-show-raw-insn "$2" | awk '
  /^[0-9a-f]+ </ {
    name = $2
    asking = name ~ /AttentionPages(10score_tile|10add_values)I|10chunk_sumsI.*Lb1E|10CopyEngineI/ && name !~ /cold/
    family = name ~ /score_tile/ ? "scores" : name ~ /add_values/ ? "values" : name ~ /chunk_sums/ ? "projections" : "copies"
    if (asking && family != "copies") seen[name] = family
  }
  /prefetch/ && asking { asks[name]++; total[family]++ }
  END {
    for (name in seen) if (!asks[name]) { print "asks for nothing: " name; bad = 1 }
    for (i = split("scores values projections copies", all, " "); i > 0; --i) {
      printf "%s: %d prefetches\n", all[i], total[all[i]]
      if (!total[all[i]]) bad = 1
    }
    exit bad
  }'
