# SPDX-License-Identifier: Apache-2.0
"""leading.py counts the waits of refused and unfinished requests to one end per cell and seed. The reference counts
them request by request; leading.py moves the sums that a report has. Also the verdicts of cells that ran once, and the
command lines of leading.py and ablation.py."""
import argparse
import csv
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
root = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(root / "bench"))
import leading  # noqa: E402

columns = ["system", "tenant", "slo_scale", "seed", "arrival_s", "output_tokens", "delivered_tokens", "outcome",
           "last_token_s"]


def request(arrival, outcome, first=None, last=None, tokens=10, delivered=None):
    """One request of a run: it arrives, gets `delivered` of its tokens from `first` to `last`, and ends so."""
    given = tokens if outcome == "served" else (delivered or 0)
    return {"arrival": arrival, "outcome": outcome, "first": first, "last": last, "tokens": tokens, "given": given}


def e2e_of_all(run, end):
    """Mean E2E, every refused and unfinished request waiting until `end`."""
    waits = [(one["last"] if one["outcome"] == "served" else end) - one["arrival"]
             for one in run["requests"] if one["outcome"] != "cancelled"]
    return sum(waits) / len(waits) if waits else None


def gap_of_all(run, end):
    """The longest gap, with those that are open at `end`. Here a request's tokens come at its first and its last."""
    gaps = [0.0]
    for one in run["requests"]:
        if one["last"] is not None:
            gaps.append(one["last"] - one["first"])
        if one["outcome"] in ("refused", "unfinished"):
            gaps.append(end - (one["last"] if one["last"] is not None else one["arrival"]))
    return max(gaps)


def count(run, outcome):
    return sum(one["outcome"] == outcome for one in run["requests"])


def end_of_those_that_serve_most(runs):
    most = max(count(run, "served") for run in runs)
    return min(run["end"] for run in runs if count(run, "served") == most)


def report_of(cell, folder):
    """What sluice-compare leaves of {system: a run for each seed}: report.json's figures, each to the run's own end,
    and requests.csv."""
    seeds = list(range(1, len(next(iter(cell.values()))) + 1))
    rows = []
    with open(folder / "requests.csv", "w", newline="") as file:
        out = csv.DictWriter(file, columns)
        out.writeheader()
        for name, runs in cell.items():
            each = {"tbt_attainment": [1.0] * len(runs), "slo_attainment": [1.0] * len(runs),
                    "mean_e2e_all_s": [e2e_of_all(run, run["end"]) for run in runs],
                    "longest_gap_all_s": [gap_of_all(run, run["end"]) for run in runs],
                    "requests": [len(run["requests"]) for run in runs], "end_s": [run["end"] for run in runs]}
            for outcome in ("served", "refused", "cancelled", "unfinished"):
                each[outcome] = [count(run, outcome) for run in runs]
            row = {key: values[0] for key, values in each.items()}  # of several seeds a mean, which nobody reads here
            row |= {outcome: sum(each[outcome]) for outcome in ("refused", "unfinished")}
            row |= {"name": name, "slo_scale": 1}
            if len(seeds) > 1:
                row["per_seed"] = each
            rows.append(row)
            for seed, run in zip(seeds, runs, strict=True):
                for one in run["requests"]:
                    out.writerow({"system": name, "tenant": "", "slo_scale": 1, "seed": seed,
                                  "arrival_s": one["arrival"], "output_tokens": one["tokens"],
                                  "delivered_tokens": one["given"], "outcome": one["outcome"],
                                  "last_token_s": "" if one["last"] is None else one["last"]})
    return {"made_by": {"commit": "0"}, "workload": {"seeds": seeds}, "systems": rows, "folder": folder}


def rows_of(cell):
    """The rows that leading.py compares: Confluence's report and the one of all others, read from two folders."""
    with tempfile.TemporaryDirectory() as at:
        reports = {}
        for key, names in (("ours", [leading.ours]), ("theirs", [name for name in cell if name != leading.ours])):
            (Path(at) / key).mkdir()
            reports[key] = report_of({name: cell[name] for name in names}, Path(at) / key)
        plain, leading.report_of = leading.report_of, lambda options, build, name, systems, *_: reports[
            "ours" if systems == leading.ours else "theirs"]
        try:
            rows = leading.run(argparse.Namespace(quick=False, bin="", theirs="", changed=set(), data=""),
                               {"machines": {}}, "cell", "", "", "1", "off", {True: set(), False: set()}, {})
        finally:
            leading.report_of = plain
    return {name: row for (_, name), row in rows.items()}


def random_run(draw, arrivals, serves):
    """A run in which a request is served with this chance, and otherwise refused, left or cancelled."""
    requests = []
    for arrival in arrivals:
        first = arrival + draw.uniform(0.1, 50)
        last = first + draw.uniform(0.1, 80)
        outcome = "served" if draw.random() < serves else draw.choice(["refused", "unfinished", "cancelled"])
        if outcome == "served" or draw.random() < 0.5:
            requests.append(request(arrival, outcome, first, last, delivered=draw.randrange(2, 10)))
        else:
            requests.append(request(arrival, outcome))
    return {"requests": requests, "end": max([one["last"] or one["arrival"] for one in requests]) + draw.random()}


class CommonEnd(unittest.TestCase):
    def close(self, a, b):
        self.assertTrue(math.isclose(a, b, rel_tol=1e-12), f"{a} is not {b}")

    def test_the_sums_are_those_of_the_single_requests(self):
        draw = random.Random(1)
        moved = 0
        for seeds in (1, 2, 5):
            for _ in range(40):
                cell = {name: [] for name in (leading.ours, "A", "B", "C")}
                for _ in range(seeds):
                    arrivals = sorted(draw.uniform(0, 100) for _ in range(draw.randrange(1, 30)))
                    for name in cell:
                        cell[name].append(random_run(draw, arrivals, draw.choice([1, 1, 0.9, 0.3, 0])))
                rows = rows_of(cell)
                for seed in range(seeds):
                    end = end_of_those_that_serve_most([runs[seed] for runs in cell.values()])
                    for name, runs in cell.items():
                        run = runs[seed]
                        if e2e_of_all(run, run["end"]) is None:  # all were cancelled
                            continue
                        until = max(end, run["end"])
                        self.close(rows[name]["mean_e2e_all_s"][seed], e2e_of_all(run, until))
                        self.close(rows[name]["longest_gap_all_s"][seed], gap_of_all(run, until))
                        moved += until > run["end"] and e2e_of_all(run, until) > e2e_of_all(run, run["end"])
        self.assertGreater(moved, 100)

    def test_no_refusal_is_shorter_than_that_request_where_all_are_served_soonest(self):
        draw = random.Random(2)
        for _ in range(50):
            arrivals = sorted(draw.uniform(0, 100) for _ in range(20))
            whole = random_run(draw, arrivals, 1)
            refuses = {"requests": [request(arrival, "refused") for arrival in arrivals], "end": arrivals[-1]}
            rows = rows_of({leading.ours: [whole], "Refuses": [refuses]})
            self.assertGreaterEqual(rows["Refuses"]["mean_e2e_all_s"][0], rows[leading.ours]["mean_e2e_all_s"][0])
            self.assertGreaterEqual(rows["Refuses"]["longest_gap_all_s"][0],
                                    max(one["first"] - one["arrival"] for one in whole["requests"]))

    def test_a_slower_system_or_one_that_serves_fewer_changes_no_other(self):
        draw = random.Random(3)
        for serves_all in (True, False):
            for _ in range(30):
                arrivals = sorted(draw.uniform(0, 100) for _ in range(20))
                cell = {leading.ours: [random_run(draw, arrivals, 1)], "A": [random_run(draw, arrivals, 0.5)]}
                slow = random_run(draw, arrivals, 1)
                slow["end"] += 10_000
                if not serves_all:
                    slow["requests"][0] = request(arrivals[0], "unfinished")
                with_it = rows_of({**cell, "Slow": [slow]})
                for name, row in rows_of(cell).items():
                    self.assertEqual(row["mean_e2e_all_s"], with_it[name]["mean_e2e_all_s"])
                    self.assertEqual(row["longest_gap_all_s"], with_it[name]["longest_gap_all_s"])

    def test_neither_an_oracle_nor_a_control_sets_the_end(self):
        served = {"requests": [request(0.0, "served", 1.0, 20.0)], "end": 20.0}
        sooner = {"requests": [request(0.0, "served", 1.0, 2.0)], "end": 2.0}
        refused = {"requests": [request(0.0, "refused")], "end": 1.0}
        for name in leading.oracles | leading.controls:
            rows = rows_of({leading.ours: [served], name: [sooner], "Refuses": [refused]})
            self.assertEqual(rows["Refuses"]["mean_e2e_all_s"], [20.0])

    def test_the_example_of_metrics_md(self):
        whole = {"requests": [request(0.0, "served", 1.0, 20.0), request(4.0, "served", 5.0, 30.0)], "end": 30.0}
        none = {"requests": [request(0.0, "refused"), request(4.0, "refused")], "end": 4.0}
        self.assertEqual((e2e_of_all(none, 4.0), gap_of_all(none, 4.0)), (2.0, 4.0))
        rows = rows_of({leading.ours: [whole], "Refuses": [none]})
        self.assertEqual(rows[leading.ours]["mean_e2e_all_s"], [23.0])
        self.assertEqual(rows["Refuses"]["mean_e2e_all_s"], [28.0])
        self.assertEqual(rows["Refuses"]["longest_gap_all_s"], [30.0])

    def test_where_nobody_serves_all_those_that_serve_most_set_the_end(self):
        both = lambda last, end: {"requests": [request(0.0, "served", 1.0, last), request(4.0, "refused")], "end": end}
        none = {"requests": [request(0.0, "refused"), request(4.0, "refused")], "end": 4.0}
        rows = rows_of({leading.ours: [both(30.0, 30.0)], "A": [both(10.0, 12.0)], "Refuses": [none]})
        self.assertEqual(rows["Refuses"]["mean_e2e_all_s"], [(12.0 + 8.0) / 2])
        self.assertEqual(rows["Refuses"]["longest_gap_all_s"], [12.0])
        self.assertEqual(rows["A"]["mean_e2e_all_s"], [(10.0 + 8.0) / 2])
        self.assertEqual(rows[leading.ours]["mean_e2e_all_s"], [(30.0 + 26.0) / 2])


def cell_of(verdicts, seeds, ahead=()):
    """A judged cell with this verdict for each figure, its means as the verdict says."""
    found = []
    for (_, _, more, *_), verdict in zip(leading.figures, verdicts, strict=True):
        found.append((100.0 + 10 * verdict * (1 if more else -1), "A", 100.0, verdict, 1))
    return found, list(ahead), seeds


class OneRun(unittest.TestCase):
    def test_a_cell_of_one_run_is_never_better_and_worse_where_its_mean_is(self):
        draw = random.Random(4)
        seen = set()
        for _ in range(500):
            mine, theirs = [draw.uniform(90, 100)], [draw.uniform(90, 100)]
            for more, absolute, relative in ((True, 0.5, 0), (False, 0, 0.01)):
                gain = (mine[0] - theirs[0]) * (1 if more else -1)
                verdict, mean = leading.judge(mine, theirs, more, absolute, relative)
                self.assertEqual(mean, gain)
                self.assertEqual(verdict, -1 if gain < -max(absolute, relative * theirs[0]) else 0)
                seen.add((verdict, gain > 1))
        self.assertEqual(seen, {(-1, False), (0, False), (0, True)})

    def test_with_several_runs_the_interval_of_the_differences_decides_in_both_directions(self):
        draw = random.Random(5)
        seen = set()
        for _ in range(500):
            theirs = [draw.uniform(90, 100) for _ in range(draw.choice([2, 4, 8]))]
            mine = [one + draw.gauss(draw.uniform(-2, 2), 1) for one in theirs]
            gains = [a - b for a, b in zip(mine, theirs)]
            t = {2: 12.706, 4: 3.1824, 8: 2.3646}[len(gains)]  # Student's t, 97.5 %, n - 1 degrees of freedom
            least = statistics.fmean(gains) - t * statistics.stdev(gains) / math.sqrt(len(gains))
            if abs(least) < 0.01:  # where the digits of t decide
                continue
            verdict, _ = leading.judge(mine, theirs, True, 0.5, 0)
            self.assertEqual(verdict > 0, least > 0 and statistics.fmean(gains) > 0.5)
            self.assertEqual(leading.judge(theirs, mine, True, 0.5, 0)[0], -verdict)
            seen.add(verdict)
        self.assertEqual(seen, {-1, 0, 1})

    def test_counts_come_again_without_the_cells_of_one_run(self):
        several = {"a": cell_of([1, 0, 0, -1], 8, ["A"]), "b": cell_of([0, 0, 1, 1], 8)}
        one = {"c": cell_of([0, -1, 0, 0], 1, ["A"])}
        lines = leading.summary({("all", "with"): {**several, **one}, ("some", "without"): several,
                                 ("single", "without"): one}).splitlines()
        self.assertEqual(lines[-4:], [
            "| all | with | 3 | 3 (1) | **2** (0) | 3 (1) | **2** (1) | 3, 2, 3, 2 | 2 |",
            "| ... without the 1 of a single run | with | 2 | 2 (1) | 2 (0) | 2 (1) | **1** (1) | 2, 2, 2, 1 | 1 |",
            "| some | without | 2 | 2 (1) | 2 (0) | 2 (1) | **1** (1) | 2, 2, 2, 1 | 1 |",
            "| single | without | 1 | 1 (0) | **0** (0) | 1 (0) | 1 (0) | 1, 0, 1, 1 | 1 |"])

    def test_one_run_is_never_bold(self):
        row = lambda tbt: {key: [value] for key, value in
                           (("tbt_attainment", tbt), ("slo_attainment", tbt), ("mean_e2e_all_s", 1 / tbt),
                            ("longest_gap_all_s", 1 / tbt))}
        for ours, theirs in ((0.9, 0.8), (0.8, 0.9)):
            for seeds in (1, 2):
                rows = {(1, leading.ours): row(ours), (1, "A"): row(theirs)}
                rows = {at: {key: values * seeds for key, values in one.items()} for at, one in rows.items()}
                cell = leading.judged(rows, 1)
                self.assertEqual(cell[2], seeds)
                shown = leading.table({"cell": cell})
                self.assertEqual(shown.count("**"), 8 if ours > theirs and seeds > 1 else 0)
                self.assertEqual(shown.count(" <"), 4 if ours < theirs else 0)


class CommandLines(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.at = Path(kept.name)
        # It fails with its flags, which is what the scripts print then.
        self.fake = self.at / "sluice-compare"
        self.fake.write_text("#!/bin/sh\necho \"$@\" >&2\nexit 2\n")
        self.fake.chmod(0o755)

    def run_script(self, script, *flags, shared=None):
        """stderr of a run that fails, started in a folder that is no checkout."""
        env = {key: value for key, value in os.environ.items() if key != "SLUICE_SHARED"}
        env |= {"SLUICE_SHARED": shared} if shared else {}
        ran = subprocess.run([sys.executable, "-B", root / "bench" / script, *flags], cwd=self.at, env=env,
                             capture_output=True, text=True)
        self.assertNotEqual(ran.returncode, 0)
        self.assertEqual(ran.stdout, "")
        return ran.stderr

    def leading(self, *flags, shared=None):
        return self.run_script("leading.py", "--bin", self.at, "--kept", self.at / "kept", *flags, shared=shared)

    def ablation(self, *flags, shared=None):
        return self.run_script("ablation/ablation.py", self.fake, "--kept", self.at / "kept", *flags, shared=shared)

    def test_a_mistake_is_one_line(self):
        for flags, says in ((("--seeds", "x"), "--seeds: it is 'x'; expected whole"),
                            (("--seeds", "1..x"), "--seeds: it is '1..x'; expected whole"),
                            (("--groups", "tuend"), "--groups: there is no 'tuend'; expected names"),
                            (("--deposits", "on,both"), "--deposits: there is no 'both'; expected names"),
                            (("--cells", "demmo"), "--cells: there is no cell 'demmo'; expected some of"),
                            (("--bin", "/nowhere"), "--bin: /nowhere has no sluice-compare; expected the folder"),
                            (("--theirs", "/nowhere"), "--theirs: /nowhere has no sluice-compare; expected")):
            said = self.leading(*flags)
            self.assertIn(says, said)
            self.assertEqual(said.count("\n"), 1, said)
        for flags, says in ((("--seeds", "x"), "--seeds: it is 'x'; expected whole"),
                            (("--seeds", "5"), "--seeds: there is one; expected several"),
                            (("--rows", "nothing"), "--rows: no label has any of these texts; expected some of")):
            said = self.ablation(*flags)
            self.assertIn(says, said)
            self.assertEqual(said.count("\n"), 1, said)

    def test_the_seeds_reach_the_program_but_1_which_is_a_trace_as_recorded(self):
        for seeds in ("5", "0", "3,5", "1..4"):
            said = self.leading("--cells", "Azure conversations", "--seeds", seeds)
            self.assertIn(f" --seeds {seeds} --no-traces", said)
        self.assertNotIn("--seeds", self.leading("--cells", "Azure conversations", "--seeds", "1").split("\n")[1])
        self.assertIn(" --seed 5 ", self.leading("--cells", "demo", "--seed", "5"))  # sluice-compare's own flag

    def test_the_traces_are_beside_the_checkout_or_in_sluice_shared(self):
        beside, named = f" {root.parent}/shared/data/traces/", f" {self.at}/data/traces/"
        self.assertIn(beside, self.leading("--cells", "Azure conversations"))
        self.assertIn(named, self.leading("--cells", "Azure conversations", shared=str(self.at)))
        self.assertIn(" mine/traces/", self.leading("--cells", "Azure conversations", "--data", "mine"))


if __name__ == "__main__":
    unittest.main()
