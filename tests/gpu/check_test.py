# SPDX-License-Identifier: Apache-2.0
"""check.py accepts a good file, and refuses each planted omission or wrong value with a line that names its place."""
import io
import json
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from xml.etree import ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench/gpu"))
import check  # noqa: E402
import plots  # noqa: E402
import report  # noqa: E402
from schema import AGAINST, COPY_WAYS, LATER, NOT_ASKED, ROW, STAGES, SYSTEMS  # noqa: E402


def good():
    """A file as a run on a GPU writes it, with every row measured."""
    rows = []
    for stage, names in STAGES.items():
        for name, times in names.items():
            for i in range(times):
                rows.append(
                    {
                        "stage": stage,
                        "name": name,
                        "config": f"size {i}",
                        "n": 3,
                        "value": 2.0,
                        "unit": "GB/s",
                        "against": "",
                        "ceiling": None,
                        "share": None,
                        "min": 1.5,
                        "median": 2.0,
                        "max": 2.5,
                        "reps": 20,
                        "refcheck": {"error": 1e-3, "limit": 4e-3, "cases": 3},
                        "status": "passed",
                        "seconds": 0.5,
                        "repro": "gpu_bench rates",
                        "reason": "",
                    }
                )
                if stage in ("rates", "copies"):
                    rows[-1].update(against="ceilings/device copy", ceiling=2.0, share=1.0)
                if (stage, name) in AGAINST:
                    rows[-1].update(against=AGAINST[stage, name], ceiling=2.0, share=1.0)
    stages = [{"name": name, "status": "done", "seconds": 1.0, "limit_s": 60, "reason": ""} for name in STAGES]
    return {
        "header": {
            "device": "a card",
            "driver": "580.1",
            "runtime": "13.0",
            "cuda": "13.0",
            "commit": "0123456789ab",
            "began": "2026-05-31T23:59:59Z",
            "binaries": "carried",
            "budget_s": 480,
            "stages": stages,
        },
        "rows": rows,
    }


def lines_of(data):
    """The lines of check.py about a file with this data."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        file.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        said = io.StringIO()
        with redirect_stderr(said):
            status = check.main([str(file)])
        lines = said.getvalue().splitlines()
        assert (status == 0) == (not lines)
        return [line.replace(str(file), "FILE") for line in lines]


class Check(unittest.TestCase):
    def refused(self, plant, *parts):
        data = good()
        plant(data)
        lines = lines_of(data)
        self.assertTrue(lines, "it was taken")
        for part in ("FILE: ", "; expected ", *parts):
            self.assertIn(part, lines[0])

    def row(self, plant, *parts):
        self.refused(lambda data: plant(data["rows"][40]), "row 41 (", *parts)

    def test_a_good_file_is_accepted(self):
        self.assertEqual(lines_of(good()), [])

    def test_each_field_is_required_and_has_its_type(self):
        for name in ROW:
            self.row(lambda row, name=name: row.pop(name), f'"{name}" is missing')
            self.row(lambda row, name=name: row.update({name: [1]}), f'"{name}" is [1]')
        for name in good()["header"]:
            self.refused(lambda data, name=name: data["header"].pop(name), f'header: "{name}" is missing')
        self.row(lambda row: row.update(more=1), '"more" is not in the schema')
        self.row(lambda row: row.update(n=True), '"n" is true')
        self.row(lambda row: row.update(value="2"), '"value" is "2"')
        self.refused(lambda data: data.pop("rows"), '"rows" is missing')
        self.refused(lambda data: data["header"].update(commit=""), '"commit" is empty')
        self.refused(lambda data: data["header"].update(began="today"), '"began" is today')

    def test_missing_rows_are_refused_and_skipped_ones_are_not(self):
        rows = good()["rows"]
        for i, row in enumerate(rows):
            data = good()
            data["rows"].pop(i)
            lines = check.check(data)
            self.assertTrue(lines, row["name"])
            self.assertIn(f"\"{row['name']}\" has", lines[0])
        skipped = good()
        for row in skipped["rows"]:
            if row["stage"] != "ceilings":
                row.update(
                    n=0,
                    value=None,
                    ceiling=row["ceiling"] if row["against"].startswith("ceilings/") else None,
                    share=None,
                    min=None,
                    median=None,
                    max=None,
                    reps=0,
                    refcheck=None,
                    status="skipped",
                    reason="no card",
                )
        lines = lines_of(skipped)
        done = [stage for stage in STAGES if stage != "ceilings"]
        self.assertEqual(len(lines), len(done))  # stages that are done but measured nothing
        for stage, line in zip(done, lines):
            self.assertIn(f"stage {stage}: it is done and all its rows are skipped; expected skipped", line)
        for stage in skipped["header"]["stages"]:
            if stage["name"] != "ceilings":
                stage.update(status="skipped", reason="no card")
        self.assertEqual(lines_of(skipped), [])

    def test_a_passed_row_needs_cases_numbers_and_an_order(self):
        self.row(lambda row: row.update(n=0), "it passed with no case")
        self.row(lambda row: row.update(reps=0), "no repetition")
        self.row(lambda row: row.update(repro=""), "how to repeat it")
        self.row(lambda row: row.update(value=None), "without a value")
        self.row(lambda row: row.update(min=2.2), "not in order")
        self.row(lambda row: row.update(value=2.2), "is not its median")
        self.row(lambda row: row.update(reason="it was slow"), "it passed and has a reason")
        self.row(lambda row: row["refcheck"].update(cases=0), "a refcheck of no case")
        self.row(lambda row: row["refcheck"].update(cases=4), "its n is 3 and its refcheck has 4 cases")
        self.row(lambda row: row.update(n=1), "its n is 1 and its refcheck has 3 cases")
        self.row(lambda row: row["refcheck"].update(limit=1e9), "its limit is 1e+09")
        self.row(lambda row: row.update(value=0.0, min=0.0, median=0.0, max=0.0), "its least value is 0 GB/s")
        self.row(lambda row: row.update(min=-1.0), "its least value is -1 GB/s")
        self.row(lambda row: row["refcheck"].update(error=None), "with an error of None")
        self.row(lambda row: row["refcheck"].update(error=1.0), "beyond 0.004")
        self.row(lambda row: row["refcheck"].pop("limit"), '"limit" is missing')
        self.row(lambda row: row.update(status="fine"), 'its status is "fine"')
        self.row(lambda row: row.update(status="failed"), "failed without a reason")
        self.row(lambda row: row.update(status="skipped", reason="why not"), "it was skipped and has")
        self.row(lambda row: row.update(stage="speed"), 'its stage is "speed"')

    def first_and_last(self, stage):
        of = [i for i, row in enumerate(good()["rows"]) if row["stage"] == stage]
        return {of[0], of[-1]}

    def test_each_comparing_stage_has_comparisons(self):
        for stage in STAGES:
            if stage in ("environment", "build"):
                continue
            for i in self.first_and_last(stage):
                self.refused(
                    lambda data, i=i: data["rows"][i].update(refcheck=None),
                    f"row {i + 1} ({stage}/",
                    "it passed and was compared with nothing",
                )
        for stage in ("environment", "build"):  # which compare nothing
            data = good()
            for row in data["rows"]:
                if row["stage"] == stage:
                    row.update(refcheck=None)
            self.assertEqual(lines_of(data), [])

    def test_bandwidths_are_beside_their_ceilings(self):
        for stage in ("rates", "copies"):
            for i in self.first_and_last(stage):
                alone = {"against": "", "ceiling": None, "share": None}
                plant = lambda data, i=i: data["rows"][i].update(alone)
                self.refused(plant, f"row {i + 1} ({stage}/", "beside nothing")

    def test_a_row_is_compared_with_its_own_counterpart(self):
        for (stage, name), against in AGAINST.items():
            i = next(i for i, row in enumerate(good()["rows"]) if (row["stage"], row["name"]) == (stage, name))
            for other in ("", "ceilings/device copy"):
                beside = {"against": other, "ceiling": 2.0 if other else None, "share": 1.0 if other else None}
                plant = lambda data, i=i, beside=beside: data["rows"][i].update(beside)
                self.refused(plant, f"row {i + 1} ({stage}/{name})", f'stands beside "{other}"', f'"{against}" in')

    def test_nan_and_infinity_are_refused(self):
        text = json.dumps(good())
        for number in ("NaN", "Infinity", "-Infinity", "1e999"):
            lines = lines_of(text.replace('"value": 2.0', f'"value": {number}', 1))
            self.assertEqual(len(lines), 1)
            self.assertIn("; expected", lines[0])

    def test_ceilings_are_rows(self):
        def of_rates(change):
            def plant(data):
                change(next(row for row in data["rows"] if row["stage"] == "rates"))

            return plant

        self.refused(of_rates(lambda row: row.update(ceiling=3.0)), "its ceiling is 3.0")
        self.refused(of_rates(lambda row: row.update(share=0.5)), "its share is 0.5")
        self.refused(of_rates(lambda row: row.update(share=None)), "its share is None")
        self.refused(of_rates(lambda row: row.update(against="nothing")), 'stands beside "nothing"')
        there_is_none = {"against": "ceilings/device cpy", "ceiling": None, "share": None}
        self.refused(of_rates(lambda row: row.update(there_is_none)), 'stands beside "ceilings/device cpy"')

    def test_all_stages_are_present_and_state_how_they_ended(self):
        self.refused(lambda data: data["header"]["stages"].pop(), "header: its stages are")
        self.refused(
            lambda data: data["header"]["stages"][2].update(status="cut"), "header, stage 3: it is cut without a reason"
        )
        self.refused(lambda data: data["header"]["stages"][2].update(status="well"), 'its status is "well"')
        self.refused(lambda data: data["header"]["stages"][2].pop("limit_s"), '"limit_s" is missing')

    def test_other_files_are_refused(self):
        for text, part in (
            ("", "Expecting value"),
            ("[]", "it is no object"),
            ('{"header": {}, "header": {}}', "twice in one object"),
            ('{"header": 1, "rows": []}', '"header" is 1'),
        ):
            self.assertIn(part, lines_of(text)[0])
        said = io.StringIO()
        with redirect_stderr(said):
            self.assertEqual(check.main(["/there/is/none.json"]), 2)
            with tempfile.NamedTemporaryFile() as file:
                file.write(b"\xff\xfe")
                file.flush()
                self.assertEqual(check.main([file.name]), 2)
        lines = said.getvalue().splitlines()
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertIn("cannot be read", line)


class Report(unittest.TestCase):
    """The page states for each claim what its rows show, and without rows that it is unmeasured."""

    def test_every_claim_is_unmeasured_without_rows(self):
        for what, _, measured in report.CLAIMS:
            self.assertIsNone(measured([]), what)

    def rows(self):
        """Rows as bench/gpu/run writes them, each with a different share."""
        rows = good()["rows"]
        for i, row in enumerate(rows):
            row["share"] = 0.5 + i / 1000
        return rows

    def test_a_claim_is_measured_only_if_all_its_rows_are_present(self):
        whole = self.rows()
        for what, _, measured in report.CLAIMS:
            said = measured(whole)
            self.assertIsNotNone(said, what)
            for row in whole:
                row["status"] = "skipped"
                if (row["stage"], row["name"]) in measured.needs:
                    self.assertIsNone(measured(whole), f"{what}: {row['name']}")
                elif (row["stage"], row["name"]) not in measured.counts:
                    self.assertEqual(measured(whole), said, f"{what}: {row['name']}")
                row["status"] = "passed"
            for row in whole:
                row["status"] = "skipped"
            self.assertIsNone(measured(whole), what)
            whole = self.rows()

    def test_claims_depend_on_their_rows(self):
        of = {what: measured for what, _, measured in report.CLAIMS}
        decoding = next(measured for what, measured in of.items() if what.startswith("attention of decoding rows"))
        sizes = ["attention, 8 decode at 4k", "attention, 32 decode at 4k", "attention, 8 decode at 16k"]
        self.assertEqual(decoding.needs, tuple(("rates", name) for name in sizes))
        without = [what for what, measured in of.items() if not measured.needs]
        copies = ["scattered blocks to the device", "scattered blocks to the host"]
        profiled = "the simulator, profiled on the card: "
        simulated = [profiled + "step time", profiled + "attainment"]
        self.assertEqual([what.split(",")[0] for what in without[:2]], copies)
        self.assertEqual([what.split(" of ")[0] for what in without[2:]], simulated)
        for what in without:  # one row suffices
            self.assertGreaterEqual(len(of[what].counts), len(SYSTEMS) if "simulator" in what else len(COPY_WAYS))

    def test_a_failed_direction_costs_only_the_claims_of_that_direction(self):
        measured = report.best_copies("to the host")
        rows = self.rows()
        self.assertIn("(CopySegments)", measured(rows))
        for row in rows:
            if row["name"] == "CopySegments, to the host":
                row["status"] = "failed"
        self.assertEqual(measured(rows).count("(as the machine does)"), 5)

    def test_the_report_names_the_system_farthest_from_its_simulation_and_counts_those_within_the_aim(self):
        measured = report.farthest("step time", "%", 1)
        rows = [row for row in self.rows() if row["name"].startswith("simulated step time, ")]
        for i, row in enumerate(rows):
            row.update(value=(-1) ** i * i / 10)
        last, every = rows[-1], len(SYSTEMS) + len(LATER)
        others = "" if len(rows) == every else f" that ran, of {every}"
        said = f"; the farthest, {last['name'].split(', ')[1]}: {last['value']:+.1f} %"
        self.assertEqual(measured(rows), f"11 of {len(rows)} systems{others}{said}")
        last["status"] = "failed"
        self.assertIn(f"11 of {len(rows) - 1} systems that ran, of {every}; ", measured(rows))

    def test_speedups_are_reported_for_ours_and_theirs(self):
        measured = report.times("ours, KV offloaded")
        rows = self.rows()
        for row in rows:
            row["share"] = 2.5 if row["name"] == "ours, KV offloaded" else row["share"]
        self.assertIn("2.50x", measured(rows))
        theirs = report.times("torch, attention, 8 decode at 4k", of_ours=False)
        for row in rows:
            row["share"] = 0.5 if row["name"].startswith("torch") else row["share"]
        self.assertIn("2.00x", theirs(rows))


class Pictures(unittest.TestCase):
    """The plots of a file of measured rows. The rows are made up, and are used only here."""

    def rows(self):
        rows = [{"stage": "ceilings", "name": "device copy", "config": "", "value": 3000.0, "status": "passed"}]
        for requests, thousands, value in ((8, 1, 900.0), (8, 4, 2400.0), (8, 16, 2700.0), (32, 4, 2800.0)):
            config = f"{requests} x 1 rows of {1024 * thousands} tokens, 32 heads on 8 of 128"
            name = f"attention, {requests} decode at {thousands}k"
            rows.append({"stage": "rates", "name": name, "config": config, "value": value, "status": "passed"})
        for way, rate in (("a copy each", 2.0), ("CopySegments", 40.0)):
            for size in ("4 KiB", "64 KiB", "1 MiB"):
                name, config = f"{way}, to the host", f"1024 blocks of {size}, scattered"
                rows.append({"stage": "copies", "name": name, "config": config, "value": rate, "status": "passed"})
        return rows

    def test_each_line_has_its_points_and_its_ceiling(self):
        drawn = {name: ElementTree.fromstring(text) for name, _, text in plots.plots(self.rows())}
        self.assertEqual(list(drawn), ["gpu-attention.svg", "gpu-copies-out.svg"])  # no plot for unmeasured rows
        texts = lambda picture: [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
        points = lambda picture: [
            [tuple(map(float, point.split(","))) for point in one.get("points").split()]
            for one in picture.iter("{http://www.w3.org/2000/svg}polyline")
        ]
        attention, copies = drawn["gpu-attention.svg"], drawn["gpu-copies-out.svg"]
        self.assertTrue({"8 requests", "32 requests", "a device copy, 3000 GB/s", "4096"} <= set(texts(attention)))
        eight, thirty_two = points(attention)
        self.assertEqual((len(eight), len(thirty_two)), (3, 1))
        self.assertEqual(sorted(eight), eight)
        self.assertLess(eight[2][1], eight[0][1], "the faster is above")
        self.assertEqual(thirty_two[0][0], eight[1][0], "the same context is at the same place")
        self.assertTrue({"a copy each", "CopySegments", "4 KiB", "1 MiB"} <= set(texts(copies)))
        self.assertNotIn("one large pinned copy", " ".join(texts(copies)))  # that ceiling was not measured

    def test_failed_and_missing_rows_are_not_drawn(self):
        self.assertEqual(plots.plots([]), [])
        rows = self.rows()
        for row in rows:
            row["status"] = "failed"
        self.assertEqual(plots.plots(rows), [])

    def test_the_page_shows_its_plots_and_a_stale_plot_is_reported(self):
        before = {name: getattr(report, name) for name in ("root", "results", "page", "images")}
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            report.root, report.results = root, root / "results"
            report.page, report.images = root / "docs/gpu.md", root / "docs/images"
            try:
                data = good()
                for row in data["rows"]:
                    if row["name"] == "attention, 8 decode at 4k" and row["stage"] == "rates":
                        row["config"] = "8 x 1 rows of 4096 tokens"
                (root / "one.json").write_text(json.dumps(data), encoding="utf-8")
                said = io.StringIO()
                with redirect_stdout(said), redirect_stderr(said):
                    self.assertEqual(report.main(["--add", str(root / "one.json")]), 0)
                    self.assertEqual(report.main(["--check"]), 0, said.getvalue())
                    self.assertIn("](images/gpu-attention.svg)", report.page.read_text(encoding="utf-8"))
                    (report.images / "gpu-other.svg").write_text("<svg/>", encoding="utf-8")
                    self.assertEqual(report.main(["--check"]), 1)
                    self.assertEqual(report.main([]), 0)
                    self.assertEqual([one.name for one in report.images.iterdir()], ["gpu-attention.svg"])
                self.assertIn("docs/images/gpu-other.svg: it is not what the results say", said.getvalue())
            finally:
                for name, value in before.items():
                    setattr(report, name, value)


class Added(unittest.TestCase):
    """Where report.py --add puts files, and from which of them it writes the page."""

    def test_the_latest_run_counts_and_no_run_overwrites_another(self):
        runs = (  # in another order than names and hashes
            ("2026-05-31T09:00:00Z", "fff", "2026-05-31-fff.json"),
            ("2026-05-31T10:00:00Z", "fff+", "2026-05-31-fff+.json"),
            ("2026-05-31T12:00:00Z", "aaa", "2026-05-31-aaa.json"),
            ("2026-05-31T11:00:00Z", "fff", "2026-05-31-fff-110000.json"),
            ("2026-05-31T12:00:00Z", "aaa", "2026-05-31-aaa.json"),
        )
        before = report.root, report.results
        with tempfile.TemporaryDirectory() as folder:
            report.root, report.results = Path(folder), Path(folder) / "results"
            try:
                self.assertIsNone(report.newest())
                for began, commit, name in runs:
                    data = good()
                    data["header"].update(began=began, commit=commit)
                    file = Path(folder) / "one.json"
                    file.write_text(json.dumps(data), encoding="utf-8")
                    with redirect_stdout(io.StringIO()):
                        report.add(file)
                    self.assertTrue((report.results / "a-card" / name).exists(), name)
                self.assertEqual(len(list(report.results.glob("*/*.json"))), 4)
                self.assertEqual(report.newest().name, "2026-05-31-aaa.json")
                data["header"].update(began="2026-05-31T13:00:00Z", commit="bbb")
                data["header"]["stages"][-1]["reason"] = NOT_ASKED
                with redirect_stdout(io.StringIO()):
                    file.write_text(json.dumps(data), encoding="utf-8")
                    report.add(file)  # a later run of some stages
                self.assertEqual(report.newest().name, "2026-05-31-aaa.json")
            finally:
                report.root, report.results = before

    def test_a_missing_file_is_reported(self):
        said = io.StringIO()
        with redirect_stderr(said):
            self.assertEqual(report.main(["--add", "/there/is/none.json"]), 2)
        self.assertEqual(len(said.getvalue().splitlines()), 1)
        self.assertIn("/there/is/none.json: it cannot be read", said.getvalue())


if __name__ == "__main__":
    unittest.main()
