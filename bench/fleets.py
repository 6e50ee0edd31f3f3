#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints docs/fleet.md's table of offload systems times routers.

usage: fleets.py [--bin FOLDER] [--data FOLDER] [--kept FOLDER] [--systems NAME,...] [--routers NAME,...]
                 [WORKLOAD...]

Each cell is one system on all engines behind one router, by sluice-fleet: SLO attainment in percent, and mean TTFT in
seconds, each marked if it differs from the first cell's of its workload beyond chance. The tokens of an iteration are
tuned for each cell: the value of `budgets` that keeps the most SLOs on seeds that are not judged. Requests of
73-capacity have no SLO: its cells have output tokens/s in the mean of its stages instead, with the preset's tokens of
an iteration. --data is the folder
of public traces: data in $SLUICE_SHARED, or in shared/ beside the checkout. Reports stay in --kept (out/fleets)
by what they were asked, so that an interrupted run goes on where it was.
"""
import argparse
import hashlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent

systems = ["VllmPrefixCaching", "HiCache", "OrbitFlowCached", "Confluence"]
routers = ["random", "load", "session", "estimated", "precise", "forecast"]
budgets = ["512", "2048"]
machine = ["--device", "a100-80", "--host-memory", "100GB", "--slo-scale", "1"]
mooncake = ["--trace", "{data}/traces/mooncake_conversation.jsonl", "--slo-ttft", "30", "--slo-tbt", "0.1"]
agents = ["--generate", "agents:sessions=40,rate=0.2,first=lognormal(24500,0.5),longest=65536", "--slo-ttft", "3",
          "--slo-tbt", "0.05"]
resampled = ["--resample", "blocks:1500", "--limit", "1500", "--seeds", "101,102"]
windows = ["--windows", "8", "--limit", "1500"]
# Workload: its flags, those of the runs that tune, and those of the runs that are judged.
workloads = {
    "Mooncake, 8 engines": (mooncake + ["--engines", "8"], resampled, windows),
    "Mooncake, 16 engines": (mooncake + ["--engines", "16"], resampled, windows),
    "agents, 2 engines": (agents + ["--engines", "2"], ["--seeds", "101,102"], ["--seeds", "1..8"]),
}
ladder = "73-capacity"
ladder_seeds = range(1, 9)


def rows_of(options, system, router, *flags):
    """Returns sluice-fleet's rows for one router."""
    command = [str(options.bin / "sluice-fleet"), "--system", system, "--router", router, "--json", "--quiet",
               *(flag.format(data=options.data) for flag in flags)]
    name = hashlib.sha256("\n".join([options.version, *command[1:]]).encode()).hexdigest()[:16] + ".json"
    path = options.kept / name
    if not path.exists():
        print("+", " ".join(command[1:]), file=sys.stderr, flush=True)
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(run.stderr)
        path.write_text(run.stdout)
    return json.loads(path.read_text())["rows"]


def ladder_row(options, system, router):
    """Returns a cell's row of 73-capacity: means over its stages, of each seed and of all."""
    row = {}
    runs = [rows_of(options, system, router, "--preset", "llmd-73-capacity", "--seed", str(seed))
            for seed in ladder_seeds]
    for figure, column in (("tokens_per_s", "output_tokens_per_s"), ("mean_ttft_s", "ttft_mean_s")):
        row[figure + "_each"] = [statistics.mean(stage[column] for stage in stages) for stages in runs]
        row[figure] = statistics.mean(row[figure + "_each"])
    return row


def judged_row(options, system, router, workload):
    """Returns a cell's judged row, with the tokens of an iteration that keep the most SLOs on the seeds that tune."""
    if workload == ladder:
        return ladder_row(options, system, router)
    flags, tuning, judged = workloads[workload]

    def served(budget, part):
        return rows_of(options, system, router, "--max-batch-tokens", budget, *machine, *flags, *part)[0]
    return served(max(budgets, key=lambda budget: attainment(served(budget, tuning))), judged)


def sign_p(wins, losses):
    """The two-sided sign test, as docs/metrics.md decides over windows."""
    n, few = wins + losses, min(wins, losses)
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(few + 1)) / 2 ** n)


def mark(row, base, figure):
    """'+' if a row has more of a figure than the base in more of the judged parts than chance explains, '-' if less."""
    pairs = [pair for pair in zip(row[figure + "_each"], base[figure + "_each"]) if None not in pair]
    wins, losses = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
    return "" if sign_p(wins, losses) > 0.05 else "+" if wins > losses else "-"


def cell(row, base):
    """The text of a table's cell; "-" for a figure of which no request has one."""
    def text(figure, shown):
        return "-" if row[figure] is None else shown(row[figure]) + mark(row, base, figure)
    first = text("tokens_per_s", lambda rate: f"{rate:,.0f}") if "tokens_per_s" in row else text(
        "slo_attainment", lambda share: f"{100 * share:.1f}")
    return first + ", " + text("mean_ttft_s", lambda s: f"{s:.2f}")


def attainment(row):
    """What tuning maximizes: a run that has no request with an SLO comes last."""
    return -1 if row["slo_attainment"] is None else row["slo_attainment"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = pathlib.Path(os.environ.get("SLUICE_SHARED", root.parent / "shared"))
    parser.add_argument("--bin", type=pathlib.Path, default=root / "build/release/bin")
    parser.add_argument("--data", type=pathlib.Path, default=shared / "data")
    parser.add_argument("--kept", type=pathlib.Path, default=root / "out/fleets")
    parser.add_argument("--systems", default=",".join(systems),
                        help="rows to print; the runs of the first cell, with which marks compare, are always made")
    parser.add_argument("--routers", default=",".join(routers), help="columns to print")
    parser.add_argument("workload", nargs="*", default=[*workloads, ladder])
    options = parser.parse_args()
    for name in options.workload:
        if name not in (*workloads, ladder):
            parser.error(f"there is no workload '{name}'; expected some of: {', '.join((*workloads, ladder))}")
    shown = options.systems.split(",")
    for name in shown:
        if name not in systems:
            parser.error(f"the table has no system '{name}'; expected some of: {', '.join(systems)}")
    columns = options.routers.split(",")
    for name in columns:
        if name not in routers:
            parser.error(f"the table has no router '{name}'; expected some of: {', '.join(routers)}")
    program = str(options.bin / "sluice-fleet")
    options.version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    options.kept.mkdir(parents=True, exist_ok=True)
    print("| workload | system | " + " | ".join(columns) + " |\n|---|---|" + "---:|" * len(columns))
    for name in options.workload:
        base = judged_row(options, systems[0], routers[0], name)
        for system in shown:
            cells = [cell(judged_row(options, system, router, name), base) for router in columns]
            print(f"| {name} | {system} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
