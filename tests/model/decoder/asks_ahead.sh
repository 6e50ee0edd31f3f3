#!/bin/sh
# Fails if a memory-bound function of a g++ program lacks its prefetch instructions: g++ 12 drops prefetches in functions
# that it might not inline (model/decoder/eigen/lanes.hpp, ask_for), and no other test shows that.
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
