#!/bin/sh
# Fails where a program's decoder does not ask memory for what comes: g++ 12 drops prefetches that stand in a function
# which it might not inline (decoder/eigen/lanes.hpp, ask_for), and nothing else shows it.
# usage: asks_ahead.sh OBJDUMP PROGRAM
"$1" -d --no-show-raw-insn "$2" | awk '
  /^[0-9a-f]+ </ { name = $2 }
  /prefetch/ && name ~ /AttentionPages/ { attention++ }
  /prefetch/ && name ~ /chunk_sums|project_few/ { projections++ }
  END { printf "prefetches of attention: %d, of projections: %d\n", attention, projections; exit !(attention && projections) }'
