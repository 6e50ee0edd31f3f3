#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One table of the costs of a step, a policy call, a plan, a copy and a machine's host, each with a plain twin. `make bench` runs it.

usage: table.py FOLDER      FOLDER: that of bench_engine, bench_placement, bench_copy and bench_host
"""
import json
import pathlib
import re
import subprocess
import sys

STEPS = {  # benchmark of bench_engine: what its step does
    "Engine<>>/running:4/waiting:100": "a steady step, 4 requests",
    "Engine<>>/running:32/waiting:10000": "a steady step, 32 requests, 10,000 wait",
    "AskedEngine>/running:4/waiting:100": "a step that asks every policy, 4 requests",
    "EveryStepEngine>/running:4/waiting:100": "a step that adopts a new plan, 4 requests",
    "Offloading>/running:4/waiting:100": "a step that fetches KV, 4 requests",
}


def run(folder, program, *arguments):
    ran = subprocess.run([folder / program, *arguments], capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{program}: {ran.stderr.strip()}")
    return ran.stdout


def found(pattern, text, program):
    match = re.search(pattern, text)
    if not match:
        sys.exit(f"{program} printed no line like {pattern}")
    return float(match.group(1))


def step_rows(folder):
    """Processor time; the twin is a loop that keeps the same accounts by hand."""
    names = "|".join(re.escape(name) for name in STEPS)
    ran = json.loads(run(folder, "bench_engine", f"--benchmark_filter=^bm_step<({names})$", "--benchmark_repetitions=5",
                         "--benchmark_report_aggregates_only=true", "--benchmark_format=json"))
    medians = {row["run_name"].removeprefix("bm_step<"): row for row in ran["benchmarks"] if
               row["aggregate_name"] == "median"}
    for name, does in STEPS.items():
        row = medians[name]
        yield does, f"{row['cpu_time']:.0f} ns", f"loop by hand: {row['by_hand_ns']:.0f} ns", row["x_by_hand"]


def plan_rows(folder):
    """Processor time of a search to its proof; the twin is the same problem as a MILP, if GLPK is there."""
    text = run(folder, "bench_placement", "--instances", "100", "--milp", "5")
    for space in ("distance", "even"):
        ours = found(rf"(?m)^{space} +R4 +L32 +to the proof +\| cpu us p50 +([0-9.]+)", text, "bench_placement")
        twin, ratio = "", None
        if space == "distance" and "MILP (GLPK" in text:
            milp = found(r"s p50 ([0-9.]+) max", text, "bench_placement")
            twin, ratio = f"GLPK: {milp * 1e6:.0f} us", ours / (milp * 1e6)
        yield f"an optimal plan, 4 requests, 32 layers, {space} space", f"{ours:.1f} us", twin, ratio


def copy_rows(folder):
    """Rates of the CPU's copies; the twin is memcpy of the same blocks on one thread. A ratio below 1 is slower."""
    text = run(folder, "bench_copy", "--seconds", "0.5")
    for block in ("16 KiB", "1 MiB"):
        rate = {way: found(rf"(?m)^ +- +{block}  {way} +([0-9.]+)", text, "bench_copy")
                for way in ("memcpy", "to device")}
        yield (f"the copy engine, unthrottled, blocks of {block}", f"{rate['to device']:.2f} GB/s",
               f"memcpy: {rate['memcpy']:.2f} GB/s", rate["to device"] / rate["memcpy"])


HOST = {  # benchmark of bench_host: what its step does, and the counter that is its result
    "resident/requests:64/context:8192/layers:32/iterations:200": ("host of a decode step, 64 x 8,192 tokens resident", "step_us", "us"),
    "fourth/requests:64/context:8192/layers:32/iterations:20": ("the same, every fourth layer on the host", "step_us", "us"),
    "streamed/requests:4/context:1024/layers:32/iterations:5": ("host of a 64 KiB block over the link, 4 requests", "ns_per_block", "ns"),
    "streamed/requests:256/context:1024/layers:32/iterations:5": ("the same, 256 requests", "ns_per_block", "ns"),
}


def host_rows(folder):
    """Processor time; the twin is a loop without any account that gives the null device the same copies."""
    names = "|".join(re.escape(name) for name in HOST)
    ran = json.loads(run(folder, "bench_host", f"--benchmark_filter=^({names})$", "--benchmark_repetitions=3",
                         "--benchmark_report_aggregates_only=true", "--benchmark_format=json"))
    medians = {row["run_name"]: row for row in ran["benchmarks"] if row["aggregate_name"] == "median"}
    for name, (does, counter, unit) in HOST.items():
        row = medians[name]
        yield does, f"{row[counter]:.0f} {unit}", f"loop by hand: {row[counter] / row['x_by_hand']:.3g} {unit}", row["x_by_hand"]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    folder = pathlib.Path(sys.argv[1])
    table = [("medians", "ours", "plain twin", "ours / twin"), ("---", "--:", "--:", "--:")]
    for rows in (step_rows, plan_rows, copy_rows, host_rows):
        table += [(*row, "" if ratio is None else f"{ratio:.3g}") for *row, ratio in rows(folder)]
    widths = [max(len(row[i]) for row in table) for i in range(4)]
    for row in table:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        print("| " + " | ".join(cells) + " |")


main()
