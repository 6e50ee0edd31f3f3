# SPDX-License-Identifier: Apache-2.0
"""bench/gpu/run with programs that print, fail, hang or die on demand: which failures stop the run."""
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from rehearsal import Rehearsal, gpu, put  # noqa: E402
from programs import ARCHIVE, unpack  # noqa: E402
from rows import within_sources  # noqa: E402
from schema import CLOCKS_DURING, FIRST, FIRST_S, GEMMS, STAGES  # noqa: E402

# A gpu_bench that prints every row of its stage, and at the row that PLANT names ("fail 0": the first) does what
# PLANT says: "fail", "die", "hang" or "lose" the device's context.
PROGRAM = f"""#!{sys.executable} -IS
import json, os, signal, sys, time
sys.path.insert(0, {str(gpu)!r})
sys.dont_write_bytecode = True
from schema import STAGES
stage = sys.argv[1]
after = int(sys.argv[sys.argv.index("--after") + 1]) if "--after" in sys.argv else 0
plant, _, at = json.loads(os.environ["PLANT"]).get(stage, "").partition(" ")
at = int(at or 0)
here = -1
for name, times in STAGES[stage].items():
    if stage == "environment" and name != "multiprocessors" or name.startswith("cublas"):
        continue
    for i in range(times):
        here += 1
        if here < after:
            continue
        what = plant if here == at else ""
        failed = what in ("fail", "lose")
        begins = dict(stage=stage, name=name, config=f"size {{i}}", repro="gpu_bench")
        print(json.dumps(dict(begins=begins)), flush=True)
        if what == "die":
            os.abort()
        if what == "hang":
            time.sleep(60)
        against = dict(rates="ceilings/cublas" if "prompt" in name else "ceilings/device copy",
                       copies="ceilings/to the device")
        row = dict(stage=stage, name=name, config=f"size {{i}}", n=1, value=2.0, unit="GB/s", min=2.0, median=2.0,
                   max=2.0, reps=1, refcheck=dict(error=0.0, limit=0.0, cases=1), seconds=0.1, repro="gpu_bench",
                   against=against.get(stage, ""), status="failed" if failed else "passed",
                   reason="off" if failed else "")
        print(json.dumps(row), flush=True)
        if what == "lose":
            sys.exit(3)
sys.exit(1 if plant == "fail" else 0)
"""

GEMM = PROGRAM.replace("stage = sys.argv[1]", 'stage = "ceilings"').replace(
    'or name.startswith("cublas")', 'or not name.startswith("cublas")'
)


# The other programs of a machine with a GPU, as far as the run uses them.
SMI = r"""#!/bin/sh
case "$1" in
*compute_cap*) echo 9.0 ;;
*memory.free*) echo "${FREE:-80000}" ;;
*event_reasons*) shift 3; case "$*" in
  *loop-ms*) printf '345, 0, 2600, 90, 50, 0x0\n1980, 97, 2600, 650.97, 50, 0x0\n1980, 99, 2600, 650.99, 50, 0x0\n'
    exec sleep 60 ;;
  *) echo '345, 0, 2600, 90.5, 50, 0x0' ;;
  esac ;;
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
HANGS = """#!/bin/sh
tool=$2
echo '{"stage": "rates", "name": "norm", "status": "passed", "reason": ""}'
echo '{"stage": "rates", "name": "embed", "status": "passed", "reason": ""}'
[ "$tool" = memcheck ] && echo '========= Invalid __global__ read of size 4 bytes'
sleep 60
"""
KERNEL_TESTS = """#!/bin/sh
echo '[doctest] test cases:  3 |  3 passed | 0 failed | 7 skipped'
case "$1" in
*norm*) echo '[doctest] assertions: 40 | 38 passed | 2 failed |'; exit 1 ;;
*embed*) exit 139 ;;
*) echo '[doctest] assertions: 40 | 40 passed | 0 failed |' ;;
esac
"""


def on_card(program):
    """A rehearsal with device facts that are otherwise missing."""
    return program.replace(
        "here = -1\n",
        """here = -1
if stage == "environment":
    for name, value in (("compute capability", 90), ("CUDA runtime", 13000),
                        ("copies gathered below, to the device", 65536), ("copies gathered below, to the host", 0)):
        print(json.dumps(dict(stage=stage, name=name, config="a card", n=1, value=value, unit="", min=value,
                              median=value, max=value, reps=1, refcheck=None, seconds=0, repro="gpu_bench", against="",
                              status="passed", reason="")))
""",
        1,
    )


class Run(Rehearsal):
    def run_with(self, plant, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            put(folder, {"gpu_bench_emulated": PROGRAM})
            return self.run_in(folder, plant, "--emulated", *arguments)

    def states(self, data, stage):
        return Counter(row["status"] for row in data["rows"] if row["stage"] == stage)

    def stage(self, data, name):
        return next(stage for stage in data["header"]["stages"] if stage["name"] == name)

    def test_a_run_without_failures_passes(self):
        data, status, _ = self.run_with({})
        self.assertEqual(status, 0)
        self.assertEqual(self.states(data, "rates"), {"passed": sum(STAGES["rates"].values())})
        rates = [row for row in data["rows"] if row["stage"] == "rates"]
        beside = {(row["against"], row["ceiling"], row["share"]) for row in rates}
        cublas = f"ceilings/{GEMMS[0]}"  # a skipped row
        self.assertEqual(beside, {("ceilings/device copy", 2.0, 1.0), (cublas, None, None)})

    def test_a_wrong_primitive_stops_everything(self):
        for plant in ("fail", "die"):
            data, status, said = self.run_with({"primitives": plant})
            self.assertEqual(status, 1)
            for name in list(STAGES)[3:]:
                self.assertEqual(set(self.states(data, name)), {"skipped"}, name)
                self.assertIn("primitives are wrong", self.stage(data, name)["reason"])
            self.assertIn("FAILED primitives/thread, lane, warp", said)
            # The others still run, and show which of them is wrong.
            self.assertEqual(self.states(data, "primitives"), {"failed": 1, "passed": len(STAGES["primitives"]) - 1})

    def test_primitives_that_are_cut_stop_nothing(self):
        flags = ["--stages", "primitives,rates", "--limit", "primitives=2", "--row-limit", "60"]
        data, status, _ = self.run_with({"primitives": "hang 1"}, *flags)
        self.assertEqual(status, 1)
        self.assertEqual(self.stage(data, "primitives")["status"], "cut")
        self.assertEqual(self.states(data, "rates"), {"passed": sum(STAGES["rates"].values())})

    def test_the_first_three_minutes_can_be_run_alone(self):
        data, status, _ = self.run_with({}, "--first")
        self.assertEqual(status, 0)
        self.assertEqual(data["header"]["budget_s"], FIRST_S)
        asked = [one["name"] for one in data["header"]["stages"] if one["reason"] != "it was not asked for"]
        self.assertEqual(asked, FIRST)

    def test_a_stage_whose_weights_do_not_fit_is_skipped_with_both_numbers(self):
        with tempfile.TemporaryDirectory() as folder:
            programs = {"gpu_bench": on_card(PROGRAM), "gpu_gemm": GEMM, "gpu_kernel_tests": KERNEL_TESTS}
            put(folder, {**programs, "nvidia-smi": SMI.replace("80000", "4000"), "compute-sanitizer": SANITIZER})
            data, _, _ = self.run_in(folder, {})
        for name in ("shape", "peers"):
            self.assertEqual(self.stage(data, name)["status"], "skipped")
            self.assertRegex(
                self.stage(data, name)["reason"],
                r"its weights need \d+\.\d GB of (device memory, and 4\.2|host memory, and \d+\.\d) GB are available",
            )

    def test_a_copy_inside_another_repository_has_the_packed_commit(self):
        with tempfile.TemporaryDirectory() as folder:
            copied = Path(folder) / "elsewhere/bench/gpu"
            copied.mkdir(parents=True)
            for file in [gpu / "run", *gpu.glob("*.py")]:
                (copied / file.name).write_bytes(file.read_bytes())
            (copied / "packed/bin").mkdir(parents=True)
            (copied / "packed/commit").write_text("0123456789ab\n", encoding="utf-8")
            put(copied / "packed/bin", {"gpu_bench": on_card(PROGRAM)})
            git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b"]
            for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "another"]):
                subprocess.run([*git, *command], check=True)
            done = subprocess.run(
                [sys.executable, copied / "run", "--stages", "primitives", "--out", f"{folder}/out"],
                cwd=folder,
                env={**os.environ, "PLANT": "{}"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            data = json.loads((Path(folder) / "out/results.json").read_text(encoding="utf-8"))
        self.assertEqual(data["header"]["commit"], "0123456789ab", done.stdout)
        self.assertEqual(self.stage(data, "primitives")["status"], "done", done.stdout)

    def test_another_failure_stops_nothing(self):
        data, status, said = self.run_with({"ceilings": "fail", "rates": "die 3"})
        self.assertEqual(status, 1)
        self.assertIn("FAILED ceilings/device copy: off", said)
        self.assertIn(f"FAILED rates/{list(STAGES['rates'])[3]}: signal {signal.SIGABRT.value}", said)
        self.assertEqual(self.states(data, "rates"), {"failed": 1, "passed": sum(STAGES["rates"].values()) - 1})
        self.assertEqual(set(self.states(data, "copies")), {"passed"})
        measured = next(row for row in data["rows"] if row["stage"] == "rates" and row["status"] == "passed")
        self.assertIsNone(measured["share"], "its ceiling failed")

    def test_a_row_that_loses_the_context_or_hangs_costs_no_other_row(self):
        for plant, reason in (("lose 1", "off"), ("hang 1", "it ran past 1 s, the limit of a row"), ("lose 0", "off")):
            data, status, said = self.run_with({"copies": plant}, "--stages", "copies", "--row-limit", "1")
            self.assertEqual(status, 1)
            self.assertEqual(self.states(data, "copies"), {"failed": 1, "passed": sum(STAGES["copies"].values()) - 1})
            self.assertIn(f": {reason}", said)
            self.assertEqual(self.stage(data, "copies")["status"], "done")

    def test_a_hanging_stage_is_cut_and_keeps_its_rows(self):
        data, status, _ = self.run_with({"copies": "hang 1"}, "--stages", "primitives,copies", "--limit", "copies=5")
        self.assertEqual(status, 1)
        self.assertEqual(self.stage(data, "copies")["status"], "cut")
        self.assertEqual(self.states(data, "copies")["passed"], 1)
        self.assertEqual(self.stage(data, "rates")["reason"], "it was not asked for")

    def test_on_a_gpu(self):
        with tempfile.TemporaryDirectory() as folder:
            programs = {"gpu_bench": on_card(PROGRAM), "gpu_gemm": GEMM, "gpu_kernel_tests": KERNEL_TESTS}
            put(folder, programs, mode=0o644)  # as after a copy
            put(folder, {"nvidia-smi": SMI, "compute-sanitizer": SANITIZER})
            data, status, said = self.run_in(folder, {})
        self.assertEqual(status, 1)
        header = data["header"]
        of = [header[name] for name in ("device", "driver", "runtime", "binaries")]
        self.assertEqual(of, ["NVIDIA X1", "580.1", "13.0", "carried"])
        failed = [row["name"] for row in data["rows"] if row["status"] == "failed"]
        self.assertEqual(failed, ["embed", "norm"], said)
        skipped = {row["stage"] for row in data["rows"] if row["status"] == "skipped"}
        self.assertEqual(skipped, {"build", "host", "identity", "shape", "peers"}, said)
        self.assertEqual({self.stage(data, one)["status"] for one in skipped - {"build"}}, {"skipped"})
        states = [row["config"] for row in data["rows"] if row["name"].startswith("clocks during")]
        self.assertEqual(len(states), len(CLOCKS_DURING))
        for state in states:
            self.assertIn("2 of 3 samples in which it had work", state)
            self.assertIn("power.draw 650.97 to 650.99", state)
            self.assertIn("clocks_event_reasons.active 0x0", state)
        prompt = next(row for row in data["rows"] if row["name"] == "attention, a prompt of 4k")
        self.assertIn(prompt["against"], [f"ceilings/{name}" for name in GEMMS])
        sanitized = [row for row in data["rows"] if row["stage"] == "sanitizers"]
        self.assertTrue(all(row["n"] == sum(STAGES["rates"].values()) for row in sanitized))

    def test_a_gpu_without_the_programs_of_a_stage(self):
        """No nvidia-smi, no kernel tests, a compute-sanitizer that hangs, and a folder named cuda."""
        with tempfile.TemporaryDirectory(prefix="cuda") as folder:
            put(folder, {"gpu_bench": on_card(PROGRAM), "compute-sanitizer": HANGS})
            data, status, said = self.run_in(folder, {}, "--limit", "sanitizers=3")
        self.assertEqual(status, 1)
        self.assertEqual(data["header"]["device"], "a card")
        self.assertEqual(self.stage(data, "kernels")["status"], "failed")
        self.assertEqual(self.stage(data, "sanitizers")["status"], "cut")
        sanitized = {row["name"]: row for row in data["rows"] if row["stage"] == "sanitizers"}
        self.assertIn("behind 2 kernels and configurations: Invalid __global__ read", sanitized["memcheck"]["reason"])
        self.assertIn("without an error until then", sanitized["initcheck"]["reason"])
        self.assertEqual(sanitized["initcheck"]["status"], "skipped")

    def test_only_the_programs_own_message_means_a_missing_device(self):
        old = "#!/bin/sh\necho \"$0: version GLIBC_9.9 not found\" >&2; exit 1\n"
        no_device = "#!/bin/sh\necho 'gpu_bench environment: cudaSetDevice: cudaErrorNoDevice, none' >&2; exit 2\n"
        for program, built in ((old, True), (no_device, False)):
            with tempfile.TemporaryDirectory(prefix="cuda") as folder:
                cmake = "#!/bin/sh\necho 'CMake Error: planted'; exit 1\n"
                put(folder, {"gpu_bench": program, "nvidia-smi": SMI, "cmake": cmake})
                data, _, said = self.run_in(folder, {}, "--stages", "primitives")
            self.assertEqual("planted" in self.stage(data, "build")["reason"], built, said)

    def test_an_impossible_output_folder_is_reported(self):
        done = subprocess.run(
            [sys.executable, gpu / "run", "--emulated", "--out", "/dev/null/here"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("; expected a folder", done.stderr)

    def test_the_stages_fit_into_the_budget_with_packed_programs(self):
        said = subprocess.run([sys.executable, gpu / "run", "--list"], stdout=subprocess.PIPE, text=True, check=True)
        limits = {line.split()[0]: float(line.split()[1]) for line in said.stdout.splitlines()}
        self.assertEqual(list(limits), list(STAGES))
        self.assertLessEqual(sum(limits.values()) - limits["build"], 535)

    def test_pack_needs_each_program_or_its_without_flag(self):
        for flags in ([], ["--run", sys.executable, "--without-run"]):
            done = subprocess.run([sys.executable, gpu / "pack", *flags], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn("; expected --run FILE, sluice-run of a build with CUDA, or --without-run", done.stderr)

    def test_programs_of_another_commit_are_not_packed(self):
        with tempfile.TemporaryDirectory() as folder:
            said = "#!/bin/sh\necho 'sluice 0.1.0 (commit fffffff, release build)'\n"
            put(folder, {name: said for name in ("sluice-run", "sluice-profile", "sluice-compare")})
            call = [sys.executable, gpu / "pack", "--run", f"{folder}/sluice-run"]
            done = subprocess.run(call, capture_output=True, text=True, check=False)
        if "git rev-parse" not in done.stderr:  # sources without history have no commit to compare
            self.assertIn("it is of commit fffffff, and the sources of", done.stderr)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1))

    def test_messages_name_sources_as_the_repository_has_them(self):
        said = "/sources/sluice/kernels/products/tile.hpp:49: broken: a / b <= c"
        self.assertEqual(within_sources(said), "kernels/products/tile.hpp:49: broken: a / b <= c")
        for other in ("", "kernels/tile.hpp:49: broken", "cuda: no /dev/nvidia0", "a/tests/x.hpp is missing"):
            self.assertEqual(within_sources(other), other)

    def test_programs_travel_compressed(self):
        with tempfile.TemporaryDirectory() as folder:
            packed = Path(folder)
            program = packed / "made"
            program.write_text("#!/bin/sh\n", encoding="utf-8")
            program.chmod(0o755)
            with tarfile.open(packed / ARCHIVE, "w:xz") as archive:
                archive.add(program, "bin/gpu_bench")
            unpack(packed)
            self.assertEqual((packed / "bin/gpu_bench").read_text(encoding="utf-8"), "#!/bin/sh\n")
            self.assertTrue(os.access(packed / "bin/gpu_bench", os.X_OK))
            (packed / "bin/gpu_bench").write_text("mine", encoding="utf-8")
            unpack(packed)  # an earlier run's
            self.assertEqual((packed / "bin/gpu_bench").read_text(encoding="utf-8"), "mine")

    def test_senseless_flags_are_refused(self):
        wrong = (
            (["--stages", "speed"], "there is no stage speed"),
            (["--timelines", "Orbit"], "there is no system Orbit"),
            (["--timelines", "OrbitFlow", "--stages", "copies"], "the stage shape does not run"),
            (["--budget", "0"], "--budget is 0"),
            (["--limit", "copies=soon"], "--limit is copies=soon"),
            (["--row-limit", "0"], "--row-limit is 0"),
        )
        for flags, part in wrong:
            done = subprocess.run([sys.executable, gpu / "run", *flags], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(part, done.stderr)
            self.assertIn("; expected", done.stderr)


if __name__ == "__main__":
    unittest.main()
