# SPDX-License-Identifier: Apache-2.0
"""bench/gpu/run with programs that print, fail, hang or die as the test says: what stops the run, and what does not."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
gpu = Path(__file__).resolve().parent.parent.parent / "bench/gpu"
sys.path.insert(0, str(gpu))
from check import check  # noqa: E402
from schema import STAGES  # noqa: E402

# A gpu_bench that has every row of its stage, and then does what PLANT says of the stage: "fail", "die", "hang".
PROGRAM = f"""#!{sys.executable}
import json, os, sys, time
sys.path.insert(0, {str(gpu)!r})
sys.dont_write_bytecode = True
from schema import STAGES
stage = sys.argv[1]
plant = json.loads(os.environ["PLANT"]).get(stage)
first = True
for name, times in STAGES[stage].items():
    if stage == "environment" and name != "multiprocessors" or name.startswith("cublas"):
        continue
    for i in range(times):
        failed = plant == "fail" and first
        row = dict(stage=stage, name=name, config=f"size {{i}}", n=1, value=2.0, unit="GB/s", min=2.0, median=2.0,
                   max=2.0, reps=1, refcheck=None, seconds=0.1, repro="gpu_bench",
                   against="ceilings/device copy" if stage == "rates" else "",
                   status="failed" if failed else "passed", reason="off" if failed else "")
        print(json.dumps(row), flush=True)
        if first and plant == "hang":
            time.sleep(60)
        if first and plant == "die":
            os.abort()
        first = False
sys.exit(1 if plant == "fail" else 0)
"""


class Run(unittest.TestCase):
    def run_with(self, plant, *arguments):
        """The file that the run wrote, its exit status and the lines that it printed."""
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "gpu_bench_emulated"
            program.write_text(PROGRAM, encoding="utf-8")
            program.chmod(0o755)
            done = subprocess.run(
                [sys.executable, gpu / "run", "--emulated", "--bin", folder, "--out", f"{folder}/out", *arguments],
                env={**os.environ, "PLANT": json.dumps(plant)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            data = json.loads((Path(folder) / "out/results.json").read_text(encoding="utf-8"))
        self.assertEqual(check(data), [], done.stdout)
        return data, done.returncode, done.stdout

    def states(self, data, stage):
        return Counter(row["status"] for row in data["rows"] if row["stage"] == stage)

    def stage(self, data, name):
        return next(stage for stage in data["header"]["stages"] if stage["name"] == name)

    def test_all_is_well(self):
        data, status, _ = self.run_with({})
        self.assertEqual(status, 0)
        self.assertEqual(self.states(data, "rates"), {"passed": sum(STAGES["rates"].values())})
        rates = [row for row in data["rows"] if row["stage"] == "rates"]
        self.assertTrue(all(row["ceiling"] == 2.0 and row["share"] == 1.0 for row in rates))

    def test_a_wrong_primitive_stops_everything(self):
        for plant in ("fail", "die"):
            data, status, said = self.run_with({"primitives": plant})
            self.assertEqual(status, 1)
            for name in list(STAGES)[3:]:
                self.assertEqual(set(self.states(data, name)), {"skipped"}, name)
                self.assertIn("primitives are wrong", self.stage(data, name)["reason"])
            self.assertIn("thread, lane, warp", said if plant == "fail" else "thread, lane, warp")

    def test_another_failure_stops_nothing(self):
        data, status, said = self.run_with({"ceilings": "fail", "rates": "die"})
        self.assertEqual(status, 1)
        self.assertIn("FAILED ceilings/device copy: off", said)
        self.assertEqual(self.states(data, "rates"), {"passed": 1, "skipped": sum(STAGES["rates"].values()) - 1})
        self.assertEqual(self.stage(data, "rates")["status"], "failed")
        self.assertEqual(set(self.states(data, "copies")), {"passed"})
        measured = next(row for row in data["rows"] if row["stage"] == "rates" and row["status"] == "passed")
        self.assertIsNone(measured["share"], "its ceiling failed")

    def test_a_stage_that_hangs_is_cut_and_keeps_its_rows(self):
        data, status, _ = self.run_with({"copies": "hang"}, "--stages", "primitives,copies", "--limit", "copies=5")
        self.assertEqual(status, 1)
        self.assertEqual(self.stage(data, "copies")["status"], "cut")
        self.assertEqual(self.states(data, "copies")["passed"], 1)
        self.assertEqual(self.stage(data, "rates")["reason"], "it was not asked for")

    def test_flags_that_make_no_sense(self):
        wrong = (
            (["--stages", "speed"], "there is no stage speed"),
            (["--budget", "0"], "--budget is 0"),
            (["--limit", "copies=soon"], "--limit is copies=soon"),
        )
        for flags, part in wrong:
            done = subprocess.run([sys.executable, gpu / "run", *flags], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(part, done.stderr)
            self.assertIn("; expected", done.stderr)


if __name__ == "__main__":
    unittest.main()
