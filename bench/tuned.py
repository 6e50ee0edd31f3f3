#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the first table of docs/leading.md: who leads where every system has its own best numbers.

usage: tuned.py [--done] [--bin FOLDER] [--data FOLDER] [--kept FOLDER] [--workloads NAME;...] [--print]

Each workload is one run of sluice-compare --tune: every system's budget of tokens (and SuperInfer's rotation) is chosen
by goodput on eight seeds or windows, and judged on eight others. Results stay in --kept (out/tuned); a workload whose
report is there is not run again, unless its flags, the systems, the numbers or the content of a trace or profile have
changed; an interrupted one goes on from its tuning.csv. --data is the folder of public traces: data in $SLUICE_SHARED,
or in shared/ beside the checkout. --done takes only workloads whose report is there, and the page names the others.
--print writes nothing, and prints each workload's whole table instead.
"""
import argparse
import hashlib
import json
import os
import pathlib
import resource
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
page = root / "docs/leading.md"
begin, end = "<!-- tuned -->\n", "<!-- /tuned -->\n"
numbers = "max-batch-tokens=128,256,512,2048;LargestVirtualLagFirst.rotation=5,50"
# Left out of the systems that sluice-compare --list names: the control and the oracles, which do not compete; Neo, because
# no device here states the rate at which its host attends KV; and four names of engines that are there under another name
# (without a deposit OrbitFlowPause is OrbitFlow; without priorities VllmPriority and VllmPriorityPreempts are
# VllmRecompute).
left_out = {"OneAtATime", "SjfOracle", "LengthRanked", "FlexGen", "FlexGenPlus", "Neo", "SwappedFirst", "OrbitFlowPause",
            "VllmPriority", "VllmPriorityPreempts"}
sharegpt = "prompt=lognormal(161,1.0),output=lognormal(338,1.0)"
orbitflow = ("--model llama3-8b --device a5000 --profile {data}/profiles/orbitflow/profiled_results_A5000.json "
             "--format orbitflow --seeds 1..8 --trace {data}/traces/orbitflow/32k_lambda")
# Name on the page, flags. In MIRAGE's a run of OrbitFlow with its 200 placements a plan takes minutes: it tries one.
workloads = [
    ("demo", "--seeds 1..8"),
    ("OrbitFlow x1", orbitflow + "1.0x_cv1.json"),
    ("OrbitFlow x2", orbitflow + "2.0x_cv1.json"),
    ("Azure code, A100",
     "--device a100-80 --trace {data}/traces/azure_llm_2023_code.csv --limit 500 --windows 8"),
    ("Azure conversations, A5000", "--batch 32 --trace {data}/traces/azure_llm_2023_conv.csv --limit 300 --windows 8"),
    ("eLLM 1.3/s",
     "--model llama2-13b --device a100-80 --host-memory 40GB --batch 512 --slo-tbt 0.05 --slo-scale 1 "
     "--generate sharegpt:rate=1.3,requests=300,cv=1.69,longest=3600 --seeds 1..8"),
    ("SuperInfer 20/s",
     "--model qwen2.5-32b --device gh200-144 --batch 1024 --slo-tbt 0.1 --slo-scale 1 "
     f"--generate poisson:rate=20,requests=1500,{sharegpt} --seeds 1..8"),
    ("MIRAGE 5/s",
     "--model opt-13b --device gh200-96 --memory-share 0.35 --batch 256 --plan-nodes 1 --slo-tbt 0.1 --slo-scale 1 "
     f"--lengths poisson:rate=1,requests=1,{sharegpt},longest=1024 --rate-scale 2.608 "
     "--trace {data}/traces/azure_llm_2023_code.csv --limit 500 --windows 8"),
]


def folder_of(options, name):
    return options.kept / name.replace(" ", "-").replace("/", "-").replace(",", "")


def systems_of(options):
    listed = subprocess.run([options.bin / "sluice-compare", "--list"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in listed.split("\n\n", 1)[0].splitlines()]
    return ",".join(name for name in names if name not in left_out)


def key_of(options, systems, flags):
    """A digest of what a workload's report depends on, besides the build: flags, systems, numbers, content of files."""
    digest = hashlib.sha256("\n".join([systems, numbers, flags]).encode())
    for word in flags.split():
        if word.startswith("{data}/"):
            digest.update(hashlib.sha256(pathlib.Path(word.format(data=options.data)).read_bytes()).digest())
    return digest.hexdigest()


def is_done(options, name, systems, flags):
    """Whether --kept has the report of this workload as it is now."""
    key = folder_of(options, name) / "workload.sha256"
    return key.exists() and key.read_text() == key_of(options, systems, flags)


def report_of(options, name, systems, flags):
    """The report of a workload; run, unless --kept has it."""
    folder = folder_of(options, name)
    words = [word.format(data=options.data) for word in flags.split()]
    command = [str(options.bin / "sluice-compare"), "--deposit", "off", "--quiet", "--systems", systems,
               "--tune", numbers, "--no-traces", "--iteration-rows", "2", *words, "--out", str(folder)]
    report = folder / "report.json"
    if not is_done(options, name, systems, flags):
        print(f"{name} ...", file=sys.stderr, flush=True)
        (folder / "workload.sha256").unlink(missing_ok=True)
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"{name}: {ran.stderr.strip()}")
        (folder / "table.txt").write_text(ran.stdout)
        for table in ("iterations.csv", "series.csv", "requests.csv"):  # gigabytes, and nobody reads them here
            (folder / table).unlink(missing_ok=True)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        (folder / "workload.sha256").write_text(key_of(options, systems, flags))  # the last file: all others are there
        print(f"  CPU seconds so far: {spent.ru_utime + spent.ru_stime:.0f}", file=sys.stderr, flush=True)
    return json.loads(report.read_text()), (folder / "table.txt").read_text()


def percent(value):
    return f"{100 * value:.1f}"


def rows_of(name, report):
    """Two lines of the page: the leader by SLO attainment with those in a tie with it, and the best beyond a tie. The
    verdicts are the report's own: by paired intervals over seeds, by signs over windows."""
    ranked = [row for row in report["systems"] if not row["oracle"] and not row["control"] and not row["livelock"]]
    ranked.sort(key=lambda row: (-row["slo_attainment"], -row["goodput_requests_per_s"], row["name"]))
    (reference,) = {row["pairs"]["against"] for row in ranked if "pairs" in row}  # all are judged by one
    (best,) = [row for row in ranked if row["name"] == reference]
    behind = [row for row in ranked if row is not best]
    beaten = [row for row in behind if not row["pairs"]["slo_attainment"]["tie"]]
    tied = [row for row in behind if row not in beaten]

    def own(row):
        return f"{row['name']} ({row['tuned'].replace('max-batch-tokens=', '')})"

    def line(head, row, verdict):
        refused = percent(row["refused"] / row["requests"])
        return (f"| {head} | {own(row)} | {percent(row['slo_attainment'])} | {verdict} | {percent(row['tbt_attainment'])} | "
                f"{refused} | {percent(row['left_out_tokens_share'])} | {row['longest_gap_all_s']:.2f} s |")

    names = ", ".join(f"{own(row)} {percent(row['slo_attainment'])}" for row in tied[:3])
    more = f" and {len(tied) - 3} more" if len(tied) > 3 else ""
    lines = [line(name, best, f"in a tie with {names}{more}" if tied else "leads")]
    for row in beaten[:1]:
        pair = row["pairs"]["slo_attainment"]
        lines.append(line("", row, f"behind: ahead in {pair['more']} of {pair['pairs']}, less in {pair['less']}"))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    shared = pathlib.Path(os.environ.get("SLUICE_SHARED", root.parent / "shared"))
    parser.add_argument("--bin", type=pathlib.Path, default=root / "build/release/bin")
    parser.add_argument("--data", type=pathlib.Path, default=shared / "data")
    parser.add_argument("--kept", type=pathlib.Path, default=root / "out/tuned")
    parser.add_argument("--workloads", default="", help="names on the page, with semicolons; default: all")
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--done", action="store_true")
    options = parser.parse_args()
    options.kept.mkdir(parents=True, exist_ok=True)
    named = [name for name, _ in workloads]
    wanted = [name.strip() for name in options.workloads.split(";")] if options.workloads else named
    for name in wanted:
        if name not in named:
            sys.exit(f"tuned.py: --workloads: there is no '{name}'; expected any of {'; '.join(named)}")
    rows, lacking = [], []
    systems = systems_of(options)
    for name, flags in workloads:
        if name not in wanted:
            continue
        if options.done and not is_done(options, name, systems, flags):
            lacking.append(name)
            continue
        report, table = report_of(options, name, systems, flags)
        rows += rows_of(name, report)
        if options.print:
            print(f"{name}\n\n{table}")
    head = ("| workload | system (its tokens a step) | SLO, % | by SLO attainment | TBT, % | refused, % of requests | "
            "left out, % of prompt tokens | longest gap of all |\n|---|---|---:|---|---:|---:|---:|---:|\n")
    text = head + "\n".join(rows) + "\n" + (f"\nNot run: {', '.join(lacking)}.\n" if lacking else "")
    if options.print or len(wanted) < len(workloads):
        print(text)
        return
    old = page.read_text()
    at = old.index(begin) + len(begin)
    page.write_text(old[:at] + "\n" + text + "\n" + old[old.index(end):])


if __name__ == "__main__":
    main()
