#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the code of docs/notebook.md on a comparison: it must read the files and print answers.
# usage: notebook.sh PROGRAM PAGE      PROGRAM: sluice-compare. Exit 77: skipped, with the reason
set -u
python=""
for each in python3 /usr/bin/python3; do
  "$each" -c 'import pandas' 2> /dev/null && python=$each && break
done
if [ -z "$python" ]; then
  echo "SKIPPED: docs.notebook: pandas is missing (Debian's python3-pandas)"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "$1"
  exit 1
}

sed -n '/^```python notebook.py$/,/^```$/p' "$2" | sed '1d;$d' > "$folder/notebook.py"
[ -s "$folder/notebook.py" ] || fail "$2 has no block \`\`\`python notebook.py"
"$1" --quiet --generate demo:requests=12 --kv-blocks 300 --systems VllmSwap,OrbitFlow,SuperInfer --deposit off --seeds 1..2 --out "$folder/out" > /dev/null ||
  fail "sluice-compare failed"
said=$(cd "$folder" && "$python" -W error notebook.py out 2>&1) || fail "$said"
echo "$said"
[ "$(echo "$said" | head -1 | cut -d'|' -f1)" = "$("$1" --version) " ] || fail "the first line is not what sluice-compare --version says"
for system in VllmSwap OrbitFlow SuperInfer; do
  [ "$(echo "$said" | grep -c "^$system")" -eq 4 ] || fail "$system is not in each of the four answers"
done
