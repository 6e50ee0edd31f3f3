#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the bound of docs/bound.md against every system in many random worlds: none may keep more requests.

usage: bound_worlds.py [--bin FOLDER] [--worlds N] [--first SEED] [FLAG...]

A world is a random workload on a machine with random memory, link, batch and SLOs. Each run of sluice-compare is a grid
of 72 worlds. Prints how many figures were compared, how many met the bound exactly, and every one above it; exits with
1 if there is one. Further FLAGs go to every run.
"""
import argparse
import csv
import io
import pathlib
import random
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
per_run = 72


def flags_of(seed):
    """A grid of 2 x 3 x 3 x 4 worlds."""
    rng = random.Random(seed)
    draw = lambda values, count: ",".join(map(str, sorted(rng.sample(values, count))))
    mean = rng.choice([30, 100, 300])
    workload = (f"gamma:rate={rng.choice([0.5, 2, 8])},cv={rng.choice([1, 3])},requests={rng.randint(3, 14)},"
                f"prompt=lognormal({rng.choice([20, 100, 600])},1.0),output=lognormal({mean},1.0),longest=1200")
    machine = rng.choice(["--model llama3-8b --device a5000", "--model opt-6.7b --device a10",
                          "--model llama3-8b --device gh200-96"])
    return (f"--generate {workload} --seed {seed} {machine} --link {rng.choice([1, 4, 16])}GB/s "
            f"--kv-blocks {draw([12, 25, 50, 80, 120, 200], 2)} --batch {draw([1, 2, 3, 5, 9], 3)} "
            f"--rate-scale {draw([1, 2, 4, 8], 3)} --slo-ttft {rng.choice([0.1, 0.5, 2])} "
            f"--slo-scale {draw([0.7, 1, 1.2, 1.5, 2, 3], 4)} --max-batch-tokens {rng.choice([64, 512, 2048])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=root / "build/release/bin")
    parser.add_argument("--worlds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=1)
    options, more = parser.parse_known_args()
    worlds = figures = exact = possible = 0
    above = []
    seed = options.first
    while worlds < options.worlds:
        command = [options.bin / "sluice-compare", "--bound", "--quiet", "--deposit", "both", "--table", "csv",
                   "--columns", "system,scale,slo-met,slo-possible", *flags_of(seed).split(), *more]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"seed {seed}: {ran.stderr.strip()}")
        bounds = set()
        for row in csv.DictReader(io.StringIO(ran.stdout)):
            met, most = float(row["slo-met"]), float(row["slo-possible"])
            if most != most:
                sys.exit(f"seed {seed}: a world without a bound: {row}")
            figures += 1
            exact += met == most
            world = tuple(value for key, value in row.items() if key not in ("system", "deposit", "slo-met"))
            bounds.add(world)
            if met > most + 1e-9:
                above.append(f"seed {seed}: {row}")
        possible += sum(float(world[-1]) < 1 for world in bounds)
        worlds += per_run
        seed += 1
    print(f"{worlds} worlds, the bound below 100 % in {possible}; {figures} figures of systems, {exact} of them the bound itself")
    for line in above:
        print(line)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
