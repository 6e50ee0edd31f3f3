#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes figures of a comparison again, from the times of single tokens and docs/metrics.md alone.

usage: recompute.py PROGRAM      PROGRAM: sluice-deadlines, sluice-compare with examples/deadline_first.hpp's engine

It serves two SLO classes of the demo with eight seeds, first come first served and by earliest deadline. Every figure
below must be in systems.csv and classes.csv to 1e-9, and the earliest deadline must beat the other beyond a tie.
"""
import csv
import gzip
import json
import math
import subprocess
import sys
import tempfile
from collections import defaultdict

CLASSES = "chat=0.5:10s/50ms,batch=0.5:600s/200ms"
SLO_OF = {"chat": (10, 0.05), "batch": (600, 0.2)}
EPSILON = sys.float_info.epsilon
checked = 0


def fail(text):
    sys.exit(f"recompute.py: {text}")


def slack(slo, when):
    """Rounding that a gap of exactly the SLO may have (docs/metrics.md)."""
    return 1e-9 * slo + 4 * EPSILON * when


def figures(requests, tokens, end):
    """`requests`: rows of requests.csv; `tokens`: the delivery times of each request; `end`: of the run."""
    met = owed = met_ttft = met_tpot = on_time = missed = count = 0
    ttfts, e2es, gaps = [], [], []
    for row in requests:
        times = tokens[int(row["request"])]
        arrival, output = float(row["arrival_s"]), int(row["output_tokens"])
        slo_ttft, slo_tbt = float(row["slo_ttft_s"]), float(row["slo_tbt_s"])
        whole = len(times) >= output
        owed += 1
        count += len(times)
        in_time = bool(times) and times[0] - arrival <= slo_ttft + slack(slo_ttft, times[0])
        met_ttft += in_time
        pace = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0
        in_pace = whole and pace <= slo_tbt + slack(slo_tbt, times[-1])
        met_tpot += in_pace
        met += whole and in_time and in_pace
        if times:
            ttfts.append(times[0] - arrival)
        if row["outcome"] == "served":
            e2es.append(times[-1] - arrival)
        for before, after in zip(times, times[1:]):
            gap = after - before
            gaps.append(gap)
            if gap <= slo_tbt + slack(slo_tbt, after):
                on_time += 1
            else:
                missed += math.ceil((gap - slack(slo_tbt, after)) / slo_tbt) - 1
        if whole:
            continue
        if row["outcome"] == "refused":
            missed += output - len(times)
        else:
            since = times[-1] if times else arrival + slo_ttft
            missed += math.floor((end - since + slack(slo_tbt, end)) / slo_tbt) if end > since else 0
    mean = lambda values: sum(values) / len(values) if values else math.nan
    return {
        "requests": owed,
        "tokens_delivered": count,
        "slo_attainment": met / owed,
        "ttft_attainment": met_ttft / owed,
        "tpot_attainment": met_tpot / owed,
        "tbt_attainment": on_time / (on_time + missed),
        "mean_ttft_s": mean(ttfts),
        "mean_e2e_s": mean(e2es),
        "mean_tbt_s": mean(gaps),
    }


def compare(told, again, whose):
    global checked
    for name, value in again.items():
        if not math.isclose(float(told[name]), value, rel_tol=1e-9, abs_tol=1e-9):
            fail(f"{whose}: {name} is {told[name]}, recomputed {value!r}")
        checked += 1


def rows(path):
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
    with opened as file:
        yield from csv.DictReader(file)


def run_of(row):
    return row["system"], row["deposit"], row["seed"]


def interval_of(pair):
    least, most = pair["interval"]
    return "no interval" if least is None else f"interval {100 * least:+.1f} .. {100 * most:+.1f}"


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        asked = [program, "--quiet", "--systems", "VllmSwap,DeadlineFirst", "--slo-classes", CLASSES, "--seeds", "1..8",
                 "--deposit", "off", "--baseline", "VllmSwap", "--tokens", "--no-traces", "--iteration-rows", "2",
                 "--out", folder]
        subprocess.run(asked, check=True, stdout=subprocess.DEVNULL)
        tokens = defaultdict(lambda: defaultdict(list))
        for row in rows(f"{folder}/tokens.csv.gz"):
            times = tokens[run_of(row)][int(row["request"])]
            if int(row["token"]) != len(times):
                fail(f"token {row['token']} of request {row['request']} is out of order")
            times.append(float(row["time_s"]))
        requests = defaultdict(list)
        for row in rows(f"{folder}/requests.csv"):
            requests[run_of(row)].append(row)
        recomputed = {}  # by class, system and seed
        for told in rows(f"{folder}/systems.csv"):
            if told["slo_ttft_s"] or told["slo_tbt_s"]:
                fail("systems.csv names one SLO for requests of two classes")
            run = run_of(told)
            compare(told, figures(requests[run], tokens[run], float(told["end_s"])), f"systems.csv, {run}")
        for told in rows(f"{folder}/classes.csv"):
            name, run = told["slo_class"], run_of(told)
            slo = (float(told["slo_ttft_s"]), float(told["slo_tbt_s"]))
            if slo != SLO_OF[name]:
                fail(f"classes.csv: the SLO of {name} is {slo}")
            own = [row for row in requests[run] if (float(row["slo_ttft_s"]), float(row["slo_tbt_s"])) == slo]
            again = figures(own, tokens[run], float(told["end_s"]))
            compare(told, again, f"classes.csv, {name}, {run}")
            recomputed[name, run[0], run[2]] = again
        report = json.load(open(f"{folder}/report.json"))
        deadline = next(row for row in report["systems"] if row["name"] == "DeadlineFirst")
        own = {of["class"]: of for of in deadline["classes"]}
        for name in SLO_OF:
            gains = [recomputed[name, "DeadlineFirst", str(seed)]["slo_attainment"] -
                     recomputed[name, "VllmSwap", str(seed)]["slo_attainment"] for seed in range(1, 9)]
            told = own[name]["pairs"]["slo_attainment"]
            if not math.isclose(told["difference"], sum(gains) / 8, abs_tol=1e-9):
                fail(f"{name}: the difference is {told['difference']}, recomputed {sum(gains) / 8}")
            print(f"{name}: SLO attainment {100 * sum(gains) / 8:+.1f} points, {interval_of(told)}")
        pair = deadline["pairs"]["slo_attainment"]
        if deadline["pairs"]["against"] != "VllmSwap":
            fail("the baseline is not VllmSwap")
        if pair["tie"] or pair["difference"] <= 0:
            fail(f"earliest deadline first is no better than first come first served: {pair}")
        print(f"both: {100 * pair['difference']:+.1f} points, {interval_of(pair)}; {checked} figures agree to 1e-9")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
