#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the ablation of docs/leading.md: what Confluence loses or gains without each of its parts.

usage: ablation.py PROGRAM [--data FOLDER] [--kept FOLDER] [--seeds LIST] [--threads N] [--rows TEXT...] [--check]

PROGRAM is sluice-compare with the types of ablations.hpp, built on an installed Sluice:

    cmake --install build/release --prefix out/prefix
    cmake -G Ninja -S bench/ablation -B out/ablation -DCMAKE_PREFIX_PATH=$PWD/out/prefix && ninja -C out/ablation ablation
    bench/ablation/ablation.py out/ablation/ablation

A row is one of those types, or Confluence with one number set to its end; rows.json has them, and the workloads. Each
figure is the mean over the seeds of the difference to Confluence as it is, with its 95 % interval; the longest gap has
none. The results stay in --kept (out/ablation-runs), so that an interrupted run goes on where it was. --rows prints the
rows whose label has one of these texts, and writes nothing. --check writes nothing and fails if the page would change.
--data is the folder of public traces: data in $SLUICE_SHARED, or in shared/ beside the checkout.
"""
import argparse
import hashlib
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent
sys.path.insert(0, str(here.parent))
import leading  # noqa: E402  (the machines and cells of leading.json, t95)

page = root / "docs/leading.md"
begin, end = "<!-- ablation -->\n", "<!-- end ablation -->\n"
# Line of a row: key of report.json, whether the difference is relative, factor, digits, and whether always shown.
lines = {
    "TBT": ("tbt_attainment", False, 100, 1, True),
    "SLO": ("slo_attainment", False, 100, 1, True),
    "E2E": ("mean_e2e_all_s", True, 100, 1, False),
    "gap": ("longest_gap_all_s", True, 100, 0, False),
}


def per_seed(options, cell, system, sets):
    """{line: the value for each seed} of this system in this cell; run, unless --kept has the report."""
    machine = re.sub(r"--slo-scale \S+", "", cell["machine"]) if "--slo-scale" in cell["flags"] else cell["machine"]
    flags = f"{machine} {cell['flags']}".replace("data:", f"{options.data}/").split()
    command = [str(options.program), "--systems", system, "--deposit", "off", "--quiet", "--seeds", options.seeds, *flags]
    for one in sets:
        command += ["--set", one]
    program = hashlib.sha256(options.program.read_bytes()).hexdigest()
    folder = options.kept / hashlib.sha256(" ".join([program, *command[1:]]).encode()).hexdigest()[:16]
    if not (folder / "report.json").exists():
        threads = ["--threads", options.threads] if options.threads else []
        ran = subprocess.run([*command, *threads, "--no-traces", "--out", str(folder)], capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"{cell['name']}, {system}: {ran.stderr.strip()}")
    report = json.loads((folder / "report.json").read_text())
    row = next(row for row in report["systems"] if row["name"] == system)
    options.commits.add(report["made_by"]["commit"])
    return {line: row["per_seed"][key] for line, (key, *_) in lines.items()}


def difference(line, theirs, ours):
    """The mean difference, half of its 95 % interval, and whether it is beyond a tie."""
    _, relative, factor, *_ = lines[line]
    scale = factor / (abs(statistics.fmean(ours)) if relative else 1)
    each = [scale * (a - b) for a, b in zip(theirs, ours, strict=True)]
    if len(each) < 2:
        sys.exit("--seeds: there is one; expected several, such as 1..8")
    half = leading.t95[min(len(each) - 1, len(leading.t95)) - 1] * statistics.stdev(each) / math.sqrt(len(each))
    mean = statistics.fmean(each)
    return mean, half, abs(mean) > max(half, 1 if relative else 0.5)


def text(line, found):
    mean, half, beyond = found
    digits = lines[line][3]
    if line == "gap":  # an interval of longest gaps contains the truth too seldom (docs/metrics.md)
        return f"{mean:+.{digits}f}"
    mark = "**" if beyond else ""
    return f"{mark}{mean:+.{digits}f}{mark} ± {half:.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)  # so that a mistake is one line
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--data", default=leading.shared_data())
    parser.add_argument("--kept", type=pathlib.Path, default=root / "out/ablation-runs")
    parser.add_argument("--seeds", type=leading.seed_list, default="1..8")
    parser.add_argument("--threads")
    parser.add_argument("--rows", nargs="+")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    options.commits = set()
    if re.fullmatch(r"(\d+)(\.\.\1)?", options.seeds):
        parser.error("argument --seeds: there is one; expected several, such as 1..8")
    if not options.program.is_file():
        sys.exit(f"{options.program}: there is no such program; expected the one that bench/ablation builds (--help)")
    plan = json.loads((here / "rows.json").read_text())
    machines = json.loads((root / "bench/leading.json").read_text())["machines"]
    cells = [{"name": name, "machine": machines.get(machine, ""), "flags": flags} for name, machine, flags in plan["cells"]]
    rows = [row for row in plan["rows"] if not options.rows or any(one in row["label"] for one in options.rows)]
    if not rows:
        sys.exit("--rows: no label has any of these texts; expected some of: " + "; ".join(r["label"] for r in plan["rows"]))
    before = page.read_text()
    if begin not in before or end not in before:
        sys.exit(f"{page}: it has no line {begin.strip()} or {end.strip()}; expected both around the table")
    ours = {}
    made = ["| instead of | | " + " | ".join(cell["name"] for cell in cells) + " |\n", "|---|---|" + "---:|" * len(cells) + "\n"]
    for number, row in enumerate(rows):
        found = {}
        for cell in cells:
            name = cell["name"]
            print(f"\r\033[K{number + 1} of {len(rows)}: {row['label']}: {name}", end="", file=sys.stderr, flush=True)
            if name not in ours:
                ours[name] = per_seed(options, cell, "Confluence", [])
            theirs = per_seed(options, cell, row.get("system", "Confluence"), row.get("set", []))
            for line in lines:
                found.setdefault(line, []).append(difference(line, theirs[line], ours[name][line]))
        label = row["label"]
        for line, (*_, always) in lines.items():
            if always or any(beyond for *_, beyond in found[line]):
                made.append(f"| {label} | {line} | " + " | ".join(text(line, one) for one in found[line]) + " |\n")
                label = ""
    print("\r\033[K", end="", file=sys.stderr)
    table = "".join(made).replace("|  | ", "| | ")
    note = f"Seeds {options.seeds}; build {', '.join(sorted(options.commits))}."
    if options.rows:
        print(note, table, sep="\n\n", end="")
        return
    head, rest = before.split(begin, 1)
    after = f"{head}{begin}\n{note}\n\n{table}\n{end}{rest.split(end, 1)[1]}"
    if options.check:
        sys.exit(0 if after == before else f"{page} would change: run bench/ablation/ablation.py")
    page.write_text(after)


if __name__ == "__main__":
    main()
