# SPDX-License-Identifier: Apache-2.0
"""leading.py counts the waits of refused and unfinished requests to one end per cell and seed. The reference counts
them request by request; leading.py moves the sums that a report has."""
import argparse
import csv
import math
import random
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench"))
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


if __name__ == "__main__":
    unittest.main()
