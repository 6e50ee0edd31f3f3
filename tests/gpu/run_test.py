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


# What else a machine with a card has, as far as the run asks it.
SMI = """#!/bin/sh
case "$1" in
*compute_cap*) echo 9.0 ;;
*mig.mode*) echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2 ;;
*) echo 'NVIDIA X1, 580.1, 1980' ;;
esac
"""
SANITIZER = """#!/bin/sh
tool=$2
shift 4
"$@"
if [ "$tool" = racecheck ]; then
  echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)'
else
  echo '========= ERROR SUMMARY: 0 errors'
fi
"""
KERNEL_TESTS = """#!/bin/sh
echo '[doctest] test cases:  3 |  3 passed | 0 failed | 7 skipped'
case "$1" in
*norm*) echo '[doctest] assertions: 40 | 38 passed | 2 failed |'; exit 1 ;;
*embed*) exit 139 ;;
*) echo '[doctest] assertions: 40 | 40 passed | 0 failed |' ;;
esac
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

    def test_on_a_card(self):
        with tempfile.TemporaryDirectory() as folder:
            gemm = PROGRAM.replace("stage = sys.argv[1]", 'stage = "ceilings"').replace(
                'or name.startswith("cublas")', 'or not name.startswith("cublas")'
            )
            bench = PROGRAM.replace(
                "first = True\n",
                """first = True
if stage == "environment":
    for name, value in (("compute capability", 90), ("CUDA runtime", 13000)):
        print(json.dumps(dict(stage=stage, name=name, config="a card", n=1, value=value, unit="", min=value,
                              median=value, max=value, reps=1, refcheck=None, seconds=0, repro="gpu_bench", against="",
                              status="passed", reason="")))
""",
                1,
            )
            programs = {
                "gpu_bench": bench,
                "gpu_gemm": gemm,
                "gpu_kernel_tests": KERNEL_TESTS,
                "nvidia-smi": SMI,
                "compute-sanitizer": SANITIZER,
            }
            for name, text in programs.items():
                (Path(folder) / name).write_text(text, encoding="utf-8")
                (Path(folder) / name).chmod(
                    0o755 if name[0] != "g" else 0o644
                )  # as a copy may
            done = subprocess.run(
                [sys.executable, gpu / "run", "--bin", folder, "--out", f"{folder}/out"],
                env={**os.environ, "PLANT": "{}", "PATH": f"{folder}:{os.environ['PATH']}"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            data = json.loads((Path(folder) / "out/results.json").read_text(encoding="utf-8"))
        self.assertEqual(check(data), [], done.stdout)
        self.assertEqual(done.returncode, 1)
        header = data["header"]
        said = [header[name] for name in ("device", "driver", "runtime", "binaries")]
        self.assertEqual(said, ["NVIDIA X1", "580.1", "13.0", "carried"])
        failed = [row["name"] for row in data["rows"] if row["status"] == "failed"]
        self.assertEqual(failed, ["embed", "norm"], done.stdout)
        skipped = {row["stage"] for row in data["rows"] if row["status"] == "skipped"}
        self.assertEqual(skipped, {"identity", "shape", "peers"}, done.stdout)
        sanitized = [row for row in data["rows"] if row["stage"] == "sanitizers"]
        self.assertTrue(all(row["n"] == sum(STAGES["rates"].values()) for row in sanitized))

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
