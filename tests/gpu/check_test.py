# SPDX-License-Identifier: Apache-2.0
"""check.py takes a good file, and refuses each omission or lie that is planted in it with a line that says where."""
import copy
import io
import json
import sys
import tempfile
import unittest
from contextlib import redirect_stderr
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench/gpu"))
import check  # noqa: E402
import report  # noqa: E402
from schema import ROW, STAGES  # noqa: E402


def good():
    """As a run on a card would write it, every row measured."""
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
    stages = [{"name": name, "status": "done", "seconds": 1.0, "limit_s": 60, "reason": ""} for name in STAGES]
    return {
        "header": {
            "device": "a card",
            "driver": "580.1",
            "runtime": "13.0",
            "cuda": "13.0",
            "commit": "0123456789ab",
            "binaries": "carried",
            "budget_s": 480,
            "stages": stages,
        },
        "rows": rows,
    }


def lines_of(data):
    """What check.py says of a file with this data."""
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

    def test_a_good_file_is_taken(self):
        self.assertEqual(lines_of(good()), [])

    def test_each_field_is_needed_and_of_its_type(self):
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
                    ceiling=row["ceiling"],
                    share=None,
                    min=None,
                    median=None,
                    max=None,
                    reps=0,
                    refcheck=None,
                    status="skipped",
                    reason="no card",
                )
        self.assertEqual(lines_of(skipped), [])

    def test_passing_needs_cases_numbers_and_an_order(self):
        self.row(lambda row: row.update(n=0), "it passed with no case")
        self.row(lambda row: row.update(reps=0), "no repetition")
        self.row(lambda row: row.update(repro=""), "how to repeat it")
        self.row(lambda row: row.update(value=None), "without a value")
        self.row(lambda row: row.update(min=2.2), "not in order")
        self.row(lambda row: row.update(value=2.2), "is not its median")
        self.row(lambda row: row.update(reason="it was slow"), "it passed and has a reason")
        self.row(lambda row: row["refcheck"].update(cases=0), "a refcheck of no case")
        self.row(lambda row: row["refcheck"].update(error=None), "with an error of None")
        self.row(lambda row: row["refcheck"].update(error=1.0), "beyond 0.004")
        self.row(lambda row: row["refcheck"].pop("limit"), '"limit" is missing')
        self.row(lambda row: row.update(status="fine"), 'its status is "fine"')
        self.row(lambda row: row.update(status="failed"), "failed without a reason")
        self.row(lambda row: row.update(status="skipped", reason="why not"), "it was skipped and has")
        self.row(lambda row: row.update(stage="speed"), 'its stage is "speed"')

    def test_no_number_is_no_number(self):
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

    def test_stages_are_all_there_and_say_how_they_ended(self):
        self.refused(lambda data: data["header"]["stages"].pop(), "header: its stages are")
        self.refused(
            lambda data: data["header"]["stages"][2].update(status="cut"), "header, stage 3: it is cut without a reason"
        )
        self.refused(lambda data: data["header"]["stages"][2].update(status="well"), 'its status is "well"')
        self.refused(lambda data: data["header"]["stages"][2].pop("limit_s"), '"limit_s" is missing')

    def test_what_is_no_result_file(self):
        for text, part in (
            ("", "Expecting value"),
            ("[]", "it is no object"),
            ('{"header": {}, "header": {}}', "twice in one object"),
            ('{"header": 1, "rows": []}', '"header" is 1'),
        ):
            self.assertIn(part, lines_of(text)[0])
        said = io.StringIO()
        with redirect_stderr(said):
            self.assertEqual(check.main(["/there/is/none.json"]), 1)
        self.assertIn("cannot be read", said.getvalue())


class Report(unittest.TestCase):
    """The page says of each claim what its rows do, and without them that nothing is known."""

    def test_every_claim_is_unmeasured_without_rows(self):
        for what, _, measured in report.CLAIMS:
            self.assertIsNone(measured([]), what)

    def test_every_claim_is_measured_by_a_whole_file_and_by_none_that_lacks_a_row_of_it(self):
        rows = good()["rows"]
        for row in rows:
            if row["share"] is None:
                row["share"] = 0.5
        for what, _, measured in report.CLAIMS:
            self.assertIsNotNone(measured(rows), what)
            lacking = copy.deepcopy(rows)
            for row in lacking:
                row["status"] = "skipped"
            self.assertIsNone(measured(lacking), what)


if __name__ == "__main__":
    unittest.main()
