#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts for docs/leading.md in how many cells Confluence leads at default numbers. (bench/tuned.py tunes all systems.)

usage: leading.py [--bin FOLDER] [--theirs FOLDER] [--data FOLDER] [--kept FOLDER] [--seeds LIST] [--groups NAMES]
                  [--cells NAME...] [--check] [FLAG...]

The cells, and which of them the engine's numbers were chosen on, are in leading.json. Each is two runs of
sluice-compare: Confluence, and the published systems. The results stay in --kept (out/leading), so that an interrupted
run goes on where it was. --theirs names an older build for the published systems: after a change of Confluence they
need not run again. Lists with a system that differs between the two builds in a small run do run again, and the page
names both builds. --seeds replaces the list of leading.json for cells without seeds of their own; "1" serves a recorded
trace as it was recorded. --quick leaves out systems that seldom lead. Those kept are in leading.json, as lists that run
apart, so that one more list repeats no other run. The page says both.
The page has the counts; the cells' own figures are written into --kept, cells.md. --cells prints the tables of these
cells alone, and writes nothing. --check writes nothing and fails if the page would
change. --no-run takes what --kept has, and the page names each list of systems that a cell lacks. --data is the folder
of public traces: data in $SLUICE_SHARED, or in shared/ beside the checkout.
Further FLAGs go to every run, such as --max-batch-tokens 256.
"""
import argparse
import csv
import hashlib
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import textwrap

root = pathlib.Path(__file__).resolve().parent.parent
page = root / "docs/leading.md"
ours = "Confluence"
# These know output lengths, which a server cannot; the control serves one request at a time.
oracles = {"SjfOracle", "LengthRanked", "FlexGen", "FlexGenPlus"}
controls = {"OneAtATime"}
# Figure: head, key of report.json, whether more is better, tie (absolute), tie (relative), factor, digits.
figures = [
    ("TBT, %", "tbt_attainment", True, 0.5, 0, 100, 1),
    ("SLO, %", "slo_attainment", True, 0.5, 0, 100, 1),
    ("mean E2E of all, s", "mean_e2e_all_s", False, 0, 0.01, 1, 1),
    ("longest gap of all, s (near)", "longest_gap_all_s", False, 0, 0.01, 1, 2),
]
titles = {"tuned": "Workloads on which numbers were chosen", "seen": "Other workloads, seen before the last changes",
          "blind": "Workloads and seeds run once, after the last change"}
# What else a run's row needs, so that those who refuse wait to a common end.
ends = ("requests", "served", "refused", "cancelled", "unfinished", "end_s")
near = 10  # TBT points within which gaps are compared
goals = {"TBT": 0.9, "SLO": 0.8, "mean E2E": 0.9, "gap": 0.7}  # by figure: the share of cells with at least a tie
t95 = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]  # by degrees of freedom, from 1


def report_of(options, build, name, systems, machine_flags, seeds, deposit):
    """What sluice-compare reports of these systems; run, unless --kept has the report of this build and command. With
    --no-run, None if it has not."""
    command = [build / "sluice-compare", "--systems", systems, "--deposit", deposit, "--quiet", *machine_flags,
               *options.more]
    # Seed 1 is the default of a generated workload, and with any seed a recorded trace is resampled.
    command += ["--seeds", seeds] if seeds != "1" else []
    program = hashlib.sha256((build / "sluice-compare").read_bytes()).hexdigest()  # another build, other results
    key = hashlib.sha256(" ".join([program, *map(str, command[1:])]).encode()).hexdigest()[:16]
    folder = options.kept / key
    report = folder / "report.json"
    if not report.exists():
        if options.no_run:
            return None
        print(f"{name}, deposit {deposit}: {systems}", file=sys.stderr, flush=True)
        threads = ["--threads", options.threads] if options.threads else []
        ran = subprocess.run([*command, *threads, "--no-traces", "--out", folder], capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"{name}: {ran.stderr.strip()}")
    return {**json.loads(report.read_text()), "folder": folder}


def waiting_since(report):
    """{(scale, system, seed): since when the longest waiting of its refused and unfinished requests has waited, in s}:
    since its last token, or since it arrived. From requests.csv, which is read only if there are such requests."""
    if not any(row["refused"] + row["unfinished"] for row in report["systems"]):
        return {}
    since = {}
    with open(report["folder"] / "requests.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["outcome"] in ("refused", "unfinished") and row["delivered_tokens"] != row["output_tokens"]:
                at = float(row["slo_scale"]), row["system"], int(row["seed"])
                since[at] = min(since.get(at, math.inf), float(row["last_token_s"] or row["arrival_s"]))
    return since


def common_end(runs):
    """The end, in s, to which the refused and unfinished requests of a cell and seed wait: the earliest end of those
    that served the most requests. So none waits less than the system that served all needed, and how slow any other
    system is changes nothing. Rejected: the latest end of all, which one slow system can move as far as it likes."""
    most = max(run["served"] for run in runs)
    return min(run["end_s"] for run in runs if run["served"] == most)


def to_common_end(systems):
    """Lets the refused and unfinished requests of {system: {figure: its value for each seed}} wait to the common end,
    where their own run ended before it. No oracle and no control sets that end."""
    for seed in range(len(next(iter(systems.values()))["end_s"])):
        runs = {name: {key: row[key][seed] for key in row} for name, row in systems.items()}
        end = common_end([run for name, run in runs.items() if name not in oracles | controls] or list(runs.values()))
        for name, run in runs.items():
            left = run["refused"] + run["unfinished"]
            if left == 0 or run["end_s"] >= end:
                continue
            systems[name]["mean_e2e_all_s"][seed] += \
                (end - run["end_s"]) * left / (run["requests"] - run["cancelled"])
            systems[name]["longest_gap_all_s"][seed] = max(run["longest_gap_all_s"], end - run["waiting_since_s"])


def words(options, cells, machine, flags, systems):
    """The flags of a cell. --plan-nodes is refused where no system searches distances."""
    text = f"{cells['machines'].get(machine, '')} {flags}"
    if systems != "all" and "OrbitFlow" not in systems:
        text = text.replace("--plan-nodes 1 ", "")
    return text.replace("data:", f"{options.data}/").split()


def quick_runs(cells, machine):
    """The lists of systems that a cell of this machine runs with --quick: by the size of its batches, and with several
    tenants those that can serve them."""
    return cells["quick_systems"][next((kind for kind in ("large", "tenants") if machine in cells[kind]), "demo")]


def build_for(options, systems):
    """--theirs, if there is one in which none of these systems differs."""
    changed = options.changed and (systems == "all" or not options.changed.isdisjoint(systems.split(",")))
    reused = options.theirs and not changed
    return options.theirs if reused else options.bin


def run(options, cells, name, machine, flags, seeds, deposit, builds, lacking):
    """The rows of a cell, waits counted to a common end: {(scale, system): {figure: its value for each seed}}. Adds the
    commits of the two builds, and the cell to the lists of systems that it lacks."""
    published = quick_runs(cells, machine) if options.quick else ["all"]
    rows = {}
    for build, systems in [(options.bin, ours), *((build_for(options, group), group) for group in published)]:
        report = report_of(options, build, name, systems, words(options, cells, machine, flags, systems),
                           seeds, deposit)
        if report is None:
            if systems == ours or len(published) == 1:
                sys.exit(f"--no-run: {options.kept} has no results of {systems} in {name}, deposit {deposit}")
            lacking.setdefault(systems, {}).setdefault(deposit, []).append(name)
            continue
        builds[systems == ours].add(report["made_by"]["commit"])
        since = waiting_since(report)
        for row in report["systems"]:
            if "/" in row["name"]:  # one tenant of a system
                continue
            at = row["slo_scale"], row["name"]
            each = row.get("per_seed") or {key: [row[key]] for key in (*(figure[1] for figure in figures), *ends)}
            each["waiting_since_s"] = [since.get((*at, seed), math.inf) for seed in report["workload"]["seeds"]]
            rows.setdefault(at, each)
    for scale in {scale for scale, _ in rows}:
        to_common_end({name: row for (at, name), row in rows.items() if at == scale})
    return rows


def changed_systems(options, cells):
    """The published systems whose figures differ between the two builds in small runs: the first cell of each kind of
    machine, with and without a deposit, one seed."""
    figures_of = lambda row: {key: value for key, value in row.items() if not key.startswith("planning_")}  # wall time
    options = argparse.Namespace(**{**vars(options), "no_run": False})
    kinds = {}
    for name, machine, flags, *_ in cells["cells"]["tuned"]:
        kinds.setdefault(machine in cells["large"], (name, machine, flags))
    changed = set()
    for name, machine, flags in kinds.values():
        systems = ",".join(quick_runs(cells, machine)[:3])
        for deposit in ("off", "on"):
            ours_, theirs = ([figures_of(row) for row in report_of(options, build, name, systems, words(
                options, cells, machine, flags, systems), "1", deposit)["systems"]] for build in (options.bin, options.theirs))
            changed |= {one["name"] for one, other in zip(ours_, theirs, strict=True)
                        if any(one[key] != other[key] for key in one.keys() & other.keys())}
    if len(changed) > len(theirs) / 2:
        sys.exit(f"--theirs: most published systems differ ({', '.join(sorted(changed))}); expected two builds "
                 f"in which few systems beside {ours} differ: drop --theirs")
    if changed:
        print(f"--theirs: {', '.join(sorted(changed))} changed; their lists run with --bin", file=sys.stderr)
    return changed


def values(row, key, factor):
    return [factor * one if one is not None else math.nan for one in row[key]]


def judge(mine, theirs, more, absolute, relative):
    """-1, 0 or +1: worse, tie or better, seed by seed. A tie: the 95 % interval of the paired differences has 0, or
    the mean difference is below the threshold. One seed has no interval: ahead is a tie then, and behind is worse, so
    that neither a cell is better nor a loss is hidden without evidence."""
    differences = [(a - b if more else b - a) for a, b in zip(mine, theirs)]
    if any(map(math.isnan, differences)):
        return 0, math.nan
    mean = statistics.fmean(differences)
    if abs(mean) <= max(absolute, relative * abs(statistics.fmean(theirs))):
        return 0, mean
    n = len(differences)
    if n > 1:
        half = t95[min(n - 1, len(t95)) - 1] * statistics.stdev(differences) / math.sqrt(n)
        if abs(mean) <= half:
            return 0, mean
    if mean < 0:
        return -1, mean
    return (1 if n > 1 else 0), mean


def judged(rows, scale):
    """For each figure ours, the best published system with its mean, and the verdict; the systems ahead in three; and
    the number of seeds."""
    systems = {name: seeds for (at, name), seeds in rows.items() if at == scale}
    mean = lambda name, key, factor: statistics.fmean(values(systems[name], key, factor))
    published = [name for name in systems if name not in oracles | controls | {ours}]
    best_tbt = max(mean(name, "tbt_attainment", 100) for name in [*published, ours])
    found, ahead = [], {name: 0 for name in published}
    for head, key, more, absolute, relative, factor, digits in figures:
        among = published
        mine = values(systems[ours], key, factor)
        if key == "longest_gap_all_s":
            among = [name for name in published if mean(name, "tbt_attainment", 100) >= best_tbt - near]
            among = among or published
        among = [name for name in among if not math.isnan(mean(name, key, factor))]
        best = (max if more else min)(among, key=lambda name: mean(name, key, factor))
        verdict, _ = judge(mine, values(systems[best], key, factor), more, absolute, relative)
        for name in published:
            ahead[name] += judge(mine, values(systems[name], key, factor), more, absolute, relative)[0] < 0
        found.append((statistics.fmean(mine), best, mean(best, key, factor), verdict, digits))
    seeds = len(values(systems[ours], figures[0][1], 1))
    return found, [name for name, count in ahead.items() if count >= 3], seeds


def text(value, digits):
    return f"{value:.{digits if abs(value) < 100 else 0 if digits == 1 and abs(value) >= 1000 else min(digits, 1)}f}"


def table(judged_cells):
    head = "| cell | " + " | ".join(figure[0] for figure in figures) + " | ahead in three |\n"
    lines = [head, "|---|" + "---:|" * len(figures) + "---|\n"]
    mark = {1: "**", 0: "", -1: ""}
    for name, (found, ahead, _) in judged_cells.items():
        cells = [f"{mark[v]}{text(a, d)}{mark[v]}{' <' if v < 0 else ''} ({text(b, d)} {best})" for a, best, b, v, d in found]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {', '.join(ahead)} |\n")
    return "".join(lines)


def counts(judged_cells):
    """The summary's columns for these cells. Bold: short of the goal."""
    cells = [found for found, _, _ in judged_cells.values()]
    columns = [str(len(cells))]
    for i, (figure, goal) in enumerate(goals.items()):
        met, led = sum(found[i][3] >= 0 for found in cells), sum(found[i][3] > 0 for found in cells)
        mark = "**" if met < goal * len(cells) else ""
        columns.append(f"{mark}{met}{mark} ({led})")
    by_mean = [0] * len(figures)
    for found in cells:
        for i, (_, _, more, absolute, relative, *_) in enumerate(figures):
            mine, _, theirs, *_ = found[i]
            by_mean[i] += (mine - theirs if more else theirs - mine) >= -max(absolute, relative * abs(theirs))
    behind = sum(bool(ahead) for _, ahead, _ in judged_cells.values())
    return [*columns, ", ".join(map(str, by_mean)), str(behind)]


def summary(groups):
    """How many cells are at least a tie: a line for each of {(title, deposit): judged cells} and, where some cells ran
    only once, one more without those."""
    said = "Cells in which Confluence at least ties with the best published system of the column; in brackets those " \
           "in which it is better. **Bold**: short of the goal, which is " + \
           ", ".join(f"{goal} of the cells ({figure})" for figure, goal in goals.items()) + ". *By the means*: the " \
           "same four counts by the means alone, whatever their intervals. *Ahead in three*: cells with such a system."
    lines = ["| cells | deposit | number | " + " | ".join(goals) + " | by the means | ahead in three |",
             "|---|---|---:|" + "---:|" * (len(goals) + 2)]
    for (title, deposit), cells in groups.items():
        several = {name: cell for name, cell in cells.items() if cell[2] > 1}
        rows = [(title, cells)]
        if len(several) not in (0, len(cells)):
            rows.append((f"... without the {len(cells) - len(several)} of a single run", several))
        lines += ["| " + " | ".join([name, deposit, *counts(some)]) + " |" for name, some in rows]
    return "\n".join(["#### How many cells", "", textwrap.fill(said, 120, break_on_hyphens=False), "", *lines, ""])


def choices(*known):
    """Reads names with commas, each of them one of these."""
    def read(text):
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"there is no '{name}'; expected names with commas between them, of: {', '.join(known)}")
        return text.split(",")
    return read


def seed_list(text):
    """Reads seeds as sluice-compare does, which refuses what only it knows, such as too many."""
    parts = [re.fullmatch(r"([0-9]+)(?:\.\.([0-9]+))?", part) for part in text.split(",")]
    if not all(parts):
        raise argparse.ArgumentTypeError(
            f"it is '{text}'; expected whole numbers such as 1,2,5 or a range such as 1..8")
    return text


def program_folder(text):
    folder = pathlib.Path(text)
    if not (folder / "sluice-compare").is_file():
        raise argparse.ArgumentTypeError(f"{folder} has no sluice-compare; expected the folder of a build's programs")
    return folder


def shared_data():
    """The folder of public traces, wherever the script is started: data in $SLUICE_SHARED, or in shared/ beside the
    checkout."""
    if os.environ.get("SLUICE_SHARED"):
        return f"{os.environ['SLUICE_SHARED']}/data"
    return str(root.parent / "shared/data")


def main():
    cells = json.loads((root / "bench/leading.json").read_text())
    # A mistake is one line, without the usage before it, and --seed is no --seeds but a FLAG of sluice-compare.
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS, allow_abbrev=False)
    parser.add_argument("--bin", type=program_folder, default=str(root / "build/release/bin"))
    parser.add_argument("--theirs", type=program_folder)
    parser.add_argument("--data", default=shared_data())
    parser.add_argument("--kept", type=pathlib.Path, default=root / "out/leading")
    parser.add_argument("--seeds", type=seed_list)
    parser.add_argument("--groups", type=choices(*cells["cells"]), default="tuned,seen,blind")
    parser.add_argument("--deposits", type=choices("off", "on"), default="off,on")
    parser.add_argument("--cells", nargs="+")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads")
    parser.add_argument("--no-run", action="store_true")
    parser.add_argument("--check", action="store_true")
    options, options.more = parser.parse_known_args()
    seeds = options.seeds or cells["seeds"]
    wanted = options.cells
    known = [cell[0] for group in options.groups for cell in cells["cells"][group]]
    for name in wanted or []:
        if name not in known:
            sys.exit(f"--cells: there is no cell '{name}'; expected some of: {'; '.join(known)}")
    options.changed = changed_systems(options, cells) if options.theirs else set()
    builds = {True: set(), False: set()}  # the commits of Confluence's build, and of the published systems'
    lacking = {}
    parts, groups = [], {}
    for group in options.groups:
        for deposit in options.deposits:
            judged_cells = {}
            for name, machine, flags, *own in cells["cells"][group]:
                if wanted is not None and name not in wanted:
                    continue
                rows = run(options, cells, name, machine, flags, own[0] if own else seeds, deposit,
                           builds, lacking)
                scales = sorted({scale for scale, _ in rows})
                for scale in scales:
                    judged_cells[name + (f", SLO x{scale:g}" if len(scales) > 1 else "")] = judged(rows, scale)
            if not judged_cells:
                continue
            title = titles.get(group, group)
            deposit = "without" if deposit == "off" else "with"
            groups[title, deposit] = judged_cells
            parts.append(f"#### {title}, {deposit} deposit\n\n{table(judged_cells)}")
    parts.insert(0, summary(groups))
    body = parts[0]
    shown = sorted({name for runs in cells["quick_systems"].values() for run_ in runs for name in run_.split(",")})
    note = f"Seeds {seeds} where arrivals can be redrawn"
    if options.quick:
        note += f"; of the published systems only {', '.join(shown)}, with large batches fewer (`--quick`)"
    if options.more:
        note += f"; further flags: {' '.join(options.more)}"
    if builds[True] != builds[False]:
        note += f"; {ours} of build {', '.join(sorted(builds[True]))}, published results from build " + \
                ", ".join(sorted(builds[False]))
    note += "."
    for systems, by_deposit in lacking.items():
        where = "; ".join(f"with{'' if deposit == 'on' else 'out'} deposit {', '.join(names)}"
                          for deposit, names in by_deposit.items())
        note += f" Not run: {systems.replace(',', ', ')} {where}."
    note = textwrap.fill(note, 120, break_on_hyphens=False)
    if wanted is not None:
        print(note, *parts, sep="\n")
        return
    begin, end = "<!-- cells -->\n", "<!-- end -->\n"
    before = page.read_text()
    if begin not in before:
        sys.exit(f"{page}: it has no line {begin.strip()}")
    head, rest = before.split(begin, 1)
    made = head + begin + "\n" + note + "\n\n" + body + "\n" + end + rest.split(end, 1)[1]
    if options.check:
        sys.exit(0 if made == before else f"{page} would change: run bench/leading.py")
    page.write_text(made)
    (options.kept / "cells.md").write_text("\n".join([note, *parts]))
    print(note, parts[0], sep="\n\n")


if __name__ == "__main__":
    main()
