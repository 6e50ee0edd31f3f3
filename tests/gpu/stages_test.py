# SPDX-License-Identifier: Apache-2.0
"""The stages that run sluice-run, sluice-profile and sluice-compare, with scripted programs: a failure costs its own
row and no other."""
import gzip
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from rehearsal import Rehearsal, gpu, put  # noqa: E402  isort: skip
import beside_peers  # noqa: E402
import clocks  # noqa: E402
import identity  # noqa: E402
import programs  # noqa: E402
import run_test  # noqa: E402
import served  # noqa: E402
import shape  # noqa: E402
from check import check  # noqa: E402
from schema import HOST_BATCHES, OFFLOADS, STAGES, SYSTEMS  # noqa: E402
from workload import BLOCK_TOKENS, LLAMA3_8B, PEERS, TINY, kv_bytes, layer_block_bytes, prompts  # noqa: E402

# sluice-run, as far as the stages use it. PLANT names a system's misbehaviour: "other" tokens, "fewer", "die", "hang".
RUN = f"""#!{sys.executable} -IS
import json, os, struct, sys, time
flags, plant = sys.argv[1:], json.loads(os.environ["PLANT"])
of = lambda flag, other=None: flags[flags.index(flag) + 1] if flag in flags else other
if "--version" in flags:
    if plant.get("version") == "die":
        print("sluice-run: error while loading shared libraries: planted.so", file=sys.stderr)
        sys.exit(127)
    print("sluice 0.1.0 (commit 0123456, release build)")
    sys.exit(0)
if "--list" in flags:
    print("\\n".join(f"{{one}}  what it is" for one in plant.get("list", ["AllResident", "VllmSwap", "OrbitFlow", "VllmRecompute", "DeepSpeedInference",
                                                                   "DeepSpeedWeights"])))
    print("\\nmodels")
    sys.exit(0)
if "--help" in flags:
    if plant.get("help", "") is None:
        sys.exit("planted")
    print("  --backend TEXT\\n  --model TEXT" + plant.get("help", ""))
    sys.exit(0)
if "--runs" in flags:  # each run is a process of its own, whose end is this one's, if it is planted so
    import subprocess
    with open(os.path.dirname(__file__) + "/loads", "a") as loads:
        loads.write("x")
    for line in sys.stdin:
        done = subprocess.run([sys.executable, "-IS", __file__, *json.loads(line), "--json"], stdout=-1, stderr=-1, text=True)
        if "crash" in done.stderr:
            sys.exit("sluice-run: crashed as planted")
        print(json.dumps(dict(error=done.stderr.strip())) if done.returncode else done.stdout.strip(), flush=True)
    sys.exit(0)
system = of("--system", "AllResident")
does = plant.get(system, "")
if does == "crash":
    sys.exit("crash")
if does == "die":
    print("sluice-run: planted", file=sys.stderr)
    sys.exit(2)
if does == "hang":
    parent, until = os.getppid(), time.monotonic() + 600
    while os.getppid() == parent and time.monotonic() < until:
        time.sleep(0.1)
if "--trace" in flags:
    lengths = [int(line.split(",")[2]) for line in open(of("--trace")).read().split()[2:] if line.count(",") == 2]
else:
    lengths = [int(of("--max-tokens"))] * flags.count("--prompt-ids")
batch, bytes_each = int(of("--batch", "16")), 0
tokens = [[(7 * i + j) % 50 + (does == "other") for j in range(count - (does == "fewer"))]
          for i, count in enumerate(lengths)]
step = 0.105 if system in ("DeepSpeedInference", "DeepSpeedWeights") else 0.01
step *= 1.2 if "--no-graphs" in flags else 1.1 if of("--gather-below") == "0" else 1
most, events = max(lengths), []
for i in range(most * -(-len(lengths) // batch)):  # a batch ends before the next starts
    decodes = min(batch, len(lengths)) if i % most else 0
    args = dict(step=i, tokens=9, decodes=decodes)
    # Iterations that capture graphs are slow, and are in no median.
    took = 1e6 * step
    events.append(dict(ph="X", name="x", ts=i * took, dur=took * (50 if i == 1 else 1), args=args))
    events += [dict(ph="X", name="layer 1", ts=(i + begin) * took, dur=0.4 * took) for begin in (0.1, 0.5)]
if of("--timeline"):
    json.dump(dict(traceEvents=events), open(of("--timeline"), "w"))
if of("--logits"):
    width, rows = 8, sum(map(len, tokens))
    here = "--backend" in flags
    numbers = [1 + 0.001 * (n % 7) + (plant.get("off", 0) if here else 0) for n in range(rows * width)]
    head = str(dict(descr="<f4", fortran_order=False, shape=(rows, width))).encode()
    with open(of("--logits"), "wb") as file:
        file.write(b"\\x93NUMPY\\x01\\x00" + struct.pack("<H", len(head)) + head)
        file.write(struct.pack(f"<{{rows * width}}f", *numbers))
moved = 0 if system == "AllResident" else 2000000 * (most - 1)
requests = [dict(tokens=one, status="done", e2e_s=step * most * (1 + i // batch)) for i, one in enumerate(tokens)]
graphs = plant.get("graphs") and dict(graphs=dict(made=0, replayed=0, launched=9, refused="")
                                      if "--no-graphs" in flags else plant["graphs"])
print(json.dumps(dict(requests=requests, bytes_moved=moved, preemptions=0, **(graphs or dict()),
                      metrics=dict(bytes_to_device=moved, tbt_attainment=0.9, iterations=most))))
"""
PROFILE = f"""#!{sys.executable} -IS
import json, os, sys
flags, plant = sys.argv[1:], json.loads(os.environ["PLANT"])
if "--help" in flags:
    print("  --measure" + plant.get("help", ""))
    sys.exit(0)
if "--version" in flags:
    print("sluice 0.1.0 (commit 0123456, release build)")
    sys.exit(0)
if plant.get("profile") == "die":
    print("sluice-profile: planted", file=sys.stderr)
    sys.exit(2)
out = flags[flags.index("--out") + 1]
os.mkdir(out)
json.dump(dict(name="a machine", host_to_device_bytes_per_s=5e8), open(out + "/device.json", "w"))
open(out + "/dense.csv", "w").write("rows,time_us\\n1,2.5\\n2," + plant.get("number", "3") + "\\n")
"""
COMPARE = f"""#!{sys.executable} -IS
import os, sys
if "--version" in sys.argv:
    print("sluice 0.1.0 (commit 0123456, release build)")
    sys.exit(0)
system = sys.argv[sys.argv.index("--systems") + 1]
out = sys.argv[sys.argv.index("--out") + 1]
step = 0.105 if system.startswith("DeepSpeed") else 0.01
print("system,tbt,iterations")
print(f"{{system}},0.88,7")
os.mkdir(out)
with open(out + "/iterations.csv", "w") as file:
    file.write("system,duration_s,decodes\\n" + f"{{system}},1,0\\n" + f"{{system}},{{1.02 * step}},2\\n" * 3)
"""
BENCH = f"""#!{sys.executable} -IS
import json
print(json.dumps(dict(stage="environment", name="multiprocessors", config="", n=1, value=1.0, unit="", min=1.0,
                      median=1.0, max=1.0, reps=1, refcheck=None, seconds=0, repro="gpu_bench", against="",
                      status="passed", reason="")))
"""
PROGRAMS = {"sluice-run": RUN, "sluice-profile": PROFILE, "sluice-compare": COMPARE, "gpu_bench_emulated": BENCH}
FLAGS = "\n  --backend TEXT\n  --random-weights UINT\n  --products TEXT\n  --gather-below TEXT\n  --no-graphs"
KEEPS = "\n  --runs"


class Stages(Rehearsal):
    def run_with(self, plant, *arguments, without=()):
        """The rows by name, the stages by name, and the exit status of a rehearsal."""
        with tempfile.TemporaryDirectory() as folder:
            put(folder, {name: text for name, text in PROGRAMS.items() if name not in without})
            data, status, _ = self.run_in(folder, plant, "--emulated", *arguments)
        rows = {(row["stage"], row["name"]): row for row in data["rows"]}
        return rows, {one["name"]: one for one in data["header"]["stages"]}, status

    def of(self, rows, stage, status):
        return [name for (of, name), row in rows.items() if of == stage and row["status"] == status]

    def test_a_run_without_failures_passes(self):
        rows, stages, status = self.run_with({}, "--stages", "identity,shape,peers")
        self.assertEqual(status, 0)
        self.assertEqual(self.of(rows, "identity", "passed"), ["logits beside the CPU", "tokens of all systems"])
        self.assertEqual(len(self.of(rows, "shape", "passed")), 4 + 2 * len(shape.REHEARSED.systems))
        step = rows["shape", "simulated step time, OrbitFlow"]
        self.assertAlmostEqual(step["value"], 2, places=6)
        self.assertAlmostEqual(rows["shape", "simulated attainment, OrbitFlow"]["value"], -2, places=6)
        # Each iteration moves 2 MB at 20 MB/s, which takes 100 ms; the iteration takes 105 ms.
        self.assertAlmostEqual(rows["shape", "iteration beside max(compute, transfers), KV"]["value"], 1.05, places=6)
        asked = PEERS["ours, everything fits"].rehearsed()
        rate = rows["peers", "ours, everything fits"]
        self.assertAlmostEqual(rate["value"], asked.requests / 0.01, places=6)
        self.assertEqual(rate["reps"], beside_peers.ROUNDS - 1)

    def test_the_timelines_of_named_systems_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            put(folder, PROGRAMS)
            (Path(folder) / "out").mkdir()
            (Path(folder) / "out" / shape.TIMELINES).write_text("of an earlier run", encoding="utf-8")
            self.run_in(folder, {}, "--emulated", "--stages", "shape", "--timelines", "OrbitFlow,VllmSwap")
            with tarfile.open(Path(folder) / "out" / shape.TIMELINES) as archive:
                self.assertEqual(archive.getnames(), ["OrbitFlow.json.gz", "VllmSwap.json.gz"])
                kept = json.loads(gzip.decompress(archive.extractfile("OrbitFlow.json.gz").read()))
            self.assertIn("traceEvents", kept)

    def test_a_system_with_wrong_or_no_tokens_is_named(self):
        for does, said in (("other", "tokens of VllmSwap;"), ("die", "VllmSwap (sluice-run: planted)")):
            rows, _, status = self.run_with({"VllmSwap": does}, "--stages", "identity")
            self.assertEqual(status, 1)
            row = rows["identity", "tokens of all systems"]
            self.assertEqual((row["status"], row["value"]), ("failed", 1.0))
            self.assertIn(said, row["reason"])
            self.assertEqual(rows["identity", "logits beside the CPU"]["status"], "passed")

    def test_host_time_is_a_step_outside_of_its_layers(self):
        rows, _, status = self.run_with({}, "--stages", "host")
        self.assertEqual(status, 0)
        for batch in HOST_BATCHES:  # the layers take four fifths of each step, of 10 ms
            self.assertAlmostEqual(rows["host", f"host time per step, {batch}"]["value"], 2000, places=3)
        rows, stages, _ = self.run_with({"AllResident": "fewer"}, "--stages", "host")
        self.assertEqual(len(self.of(rows, "host", "failed")), len(HOST_BATCHES))
        self.assertEqual(stages["host"]["status"], "done")

    def test_wrong_logits_fail(self):
        for off, status in ((0.01, "passed"), (0.05, "failed"), (float("nan"), "failed")):
            rows, _, _ = self.run_with({"off": off}, "--stages", "identity")
            self.assertEqual(rows["identity", "logits beside the CPU"]["status"], status, off)
            self.assertEqual(rows["identity", "tokens of all systems"]["status"], "passed")

    def test_a_system_that_dies_hangs_or_lacks_tokens_costs_its_own_rows(self):
        for does, said in (("die", "planted"), ("fewer", "are missing"), ("hang", "ran past 6 s")):
            rows, stages, status = self.run_with({"OrbitFlow": does}, "--stages", "shape", "--row-limit", "3")
            self.assertEqual(status, 1)
            failed = [OFFLOADS, "simulated step time, OrbitFlow", "simulated attainment, OrbitFlow"]
            self.assertEqual(self.of(rows, "shape", "failed"), failed)
            self.assertIn(said, rows["shape", failed[1]]["reason"])
            self.assertEqual(stages["shape"]["status"], "done")

    def test_tokens_left_uncompared_by_a_cut_do_not_pass(self):
        rows, stages, _ = self.run_with({"OrbitFlow": "hang"}, "--stages", "identity", "--limit", "identity=8")
        self.assertEqual(stages["identity"]["status"], "cut")
        row = rows["identity", "tokens of all systems"]
        self.assertEqual(row["status"], "skipped")
        self.assertIn("after 2 of 3 systems, none of which differed", row["reason"])
        self.assertEqual(rows["identity", "logits beside the CPU"]["status"], "passed")

    def test_a_cut_stage_keeps_its_measurements(self):
        rows, stages, _ = self.run_with({"VllmSwap": "hang"}, "--stages", "shape", "--limit", "shape=10")
        self.assertEqual(stages["shape"]["status"], "cut")
        self.assertEqual(rows["shape", "simulated step time, OrbitFlow"]["status"], "passed")
        self.assertIn("past its limit", rows["shape", "simulated step time, VllmSwap"]["reason"])

    def test_a_run_that_ends_early_keeps_its_measurements(self):
        with tempfile.TemporaryDirectory() as folder:
            put(folder, PROGRAMS)
            file = Path(folder) / "out/results.json"
            arguments = ["--emulated", "--bin", folder, "--out", file.parent, "--stages", "shape"]
            running = subprocess.Popen(
                [sys.executable, gpu / "run", *arguments],
                env={**os.environ, "PLANT": json.dumps({"VllmSwap": "hang"})},
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            there = {}
            for _ in range(15000):  # until the system before the hanging one has its rows; only a failure takes five minutes
                if file.exists():
                    data = json.loads(file.read_text(encoding="utf-8"))
                    there = {row["name"]: row for row in data["rows"]}
                    if there["simulated attainment, OrbitFlow"]["status"] == "passed":
                        break
                time.sleep(0.02)
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            data = json.loads(file.read_text(encoding="utf-8"))
        self.assertEqual(check(data), [])
        self.assertEqual(there["simulated attainment, OrbitFlow"]["status"], "passed")
        stage = next(one for one in data["header"]["stages"] if one["name"] == "shape")
        self.assertEqual((stage["status"], stage["reason"]), ("cut", "the run was cut in the middle of it"))
        self.assertEqual(there["simulated attainment, OneAtATime"]["reason"], "the run was cut in the middle of it")

    def test_an_invalid_profile_costs_only_the_table(self):
        for plant in ({"profile": "die"}, {"number": "-1"}, {"number": "nan"}):
            rows, _, status = self.run_with(plant, "--stages", "shape")
            self.assertEqual(status, 1)
            self.assertEqual(rows["shape", "profile"]["status"], "failed", plant)
            self.assertEqual(rows["shape", "iteration beside max(compute, transfers), KV"]["status"], "passed")

    def test_missing_programs_are_named(self):
        for name, stage in (("sluice-run", "identity"), ("sluice-profile", "shape"), ("sluice-run", "peers")):
            _, stages, _ = self.run_with({}, "--stages", stage, without=(name,))
            self.assertEqual(stages[stage]["status"], "skipped")
            self.assertIn(f"there is no program {name}", stages[stage]["reason"])

    def test_a_program_that_cannot_start_fails_its_stages_with_its_message(self):
        rows, stages, status = self.run_with({"version": "die"}, "--stages", "identity,shape,peers")
        self.assertEqual(status, 1)
        for stage, name in (("build", "sluice-run"), ("peers", "ours, everything fits")):
            self.assertEqual(rows[stage, name]["status"], "failed")
            self.assertIn("planted.so", rows[stage, name]["reason"])
        for stage in ("identity", "shape"):
            self.assertEqual(stages[stage]["status"], "failed")
            self.assertIn("planted.so", stages[stage]["reason"])
        self.assertNotEqual(rows["peers", "transformers, default cache"]["reason"], "", "theirs are asked all the same")
        self.assertEqual(rows["build", "sluice-profile"]["config"], "sluice 0.1.0 (commit 0123456, release build)")

    def test_a_program_whose_help_fails_fails_its_stage(self):
        rows, stages, _ = self.run_with({"help": None}, "--stages", "identity")
        self.assertEqual(stages["identity"]["status"], "failed")
        self.assertIn("sluice-run --help: planted", stages["identity"]["reason"])

    def test_a_build_with_few_systems_skips_the_rows_of_the_others(self):
        rows, _, status = self.run_with({"list": ["AllResident", "OrbitFlow"]}, "--stages", "identity,shape,peers")
        self.assertEqual(status, 0)
        self.assertEqual(rows["shape", "simulated step time, OrbitFlow"]["status"], "passed")
        for stage, name in (
            ("shape", "iteration beside max(compute, transfers), KV"),
            ("shape", "simulated step time, DeepSpeedInference"),
            ("peers", "ours, KV offloaded"),
        ):
            self.assertIn("does not name DeepSpeedInference", rows[stage, name]["reason"])

    def test_a_system_without_rows_fails_the_stage(self):
        _, stages, status = self.run_with({"list": ["AllResident", "OrbitFlow", "Mine"]}, "--stages", "shape")
        self.assertEqual(status, 1)
        self.assertIn("no rows for Mine", stages["shape"]["reason"])

    def on_card(self, plant, *stages, flags=()):
        """The same on a machine with a GPU. `loads` counts the processes that keep weights."""
        bench = {"gpu_gemm": run_test.GEMM, "gpu_bench": run_test.on_card(run_test.PROGRAM), "nvidia-smi": run_test.SMI}
        with tempfile.TemporaryDirectory() as folder:
            put(folder, {**PROGRAMS, **bench})
            data, status, _ = self.run_in(folder, plant, "--stages", ",".join(stages), *flags)
            loads = Path(folder) / "loads"
            self.loads = len(loads.read_text(encoding="utf-8")) if loads.exists() else 0
            log = (Path(folder) / "out/run.log").read_text(encoding="utf-8")
        return {(row["stage"], row["name"]): row for row in data["rows"]}, status, log

    def test_on_a_gpu(self):
        plant = {"help": FLAGS, "graphs": {"made": 8, "replayed": 300, "launched": 24, "refused": ""}}
        rows, status, log = self.on_card(plant, "ceilings", "identity", "shape", "peers")
        self.assertEqual(status, 0)
        cost = "passed" if served.cublas_folders() else "skipped"
        for kind in ("decoding", "prompts"):
            self.assertEqual(rows["identity", f"what invariant products cost, {kind}"]["status"], cost)
        self.assertIn("--backend cuda --products invariant", rows["identity", "tokens of all systems"]["repro"])
        # The ceiling is 2 GB/s, at which transfers take less time than computing.
        slow = rows["shape", "iteration beside max(compute, transfers), KV"]
        self.assertEqual(slow["status"], "skipped")
        self.assertIn("the link does not bind: 8 x 1024 tokens on llama3-8b, 16 layers", slow["reason"])
        launches = rows["identity", "what launching without graphs costs, decoding"]
        self.assertAlmostEqual(launches["value"], 20, places=6)
        self.assertIn("300 sequences replayed by 8 graphs, 24 launched", launches["config"])
        self.assertAlmostEqual(rows["shape", shape.GATHERING]["value"], 10, places=6)
        there = {"VllmSwap", "OrbitFlow", "VllmRecompute", "DeepSpeedInference", "DeepSpeedWeights"}
        for system in SYSTEMS:
            row = rows["shape", f"simulated step time, {system}"]
            self.assertEqual(row["status"], "passed" if system in there else "skipped", row["reason"])
        profiled = rows["shape", "profile"]["repro"]
        self.assertIn("--measure --backend cuda --products ", profiled)
        model = "--model FOLDER/llama3-8b-8-32768 --random-weights 1"  # the profiled model is the model that runs
        self.assertIn(model, profiled)
        self.assertIn(model, rows["shape", "simulated step time, OrbitFlow"]["repro"])
        self.assertEqual(rows["peers", "ours, everything fits"]["status"], "passed")
        self.assertNotIn("Traceback", log)

    def test_one_process_keeps_the_weights_of_all_systems(self):
        alone, _, _ = self.on_card({"help": FLAGS}, "ceilings", "shape")
        self.assertEqual(self.loads, 0)
        kept, status, log = self.on_card({"help": FLAGS + KEEPS}, "ceilings", "shape")
        self.assertEqual(status, 0)
        self.assertEqual(self.loads, 1)
        self.assertNotIn("Traceback", log)
        for name, one in kept.items():
            for field in ("status", "config", "value", "repro"):
                if name[0] == "shape" and name[1] != "profile":  # its time differs
                    self.assertEqual(one[field], alone[name][field], name)

    def test_a_run_that_its_process_does_not_survive_costs_its_own_rows(self):
        for plant, loads, said in (
            ("die", 1, "sluice-run: planted"),
            ("crash", 2, "sluice-run: crashed as planted"),
            ("hang", 2, "sluice-run ran past"),
        ):
            flags = ("--row-limit", "3") if plant == "hang" else ()
            rows, _, _ = self.on_card({"help": FLAGS + KEEPS, "VllmSwap": plant}, "ceilings", "shape", flags=flags)
            self.assertEqual(self.loads, loads)
            for system, state in (("VllmSwap", "failed"), ("OrbitFlow", "passed"), ("DeepSpeedInference", "passed")):
                row = rows["shape", f"simulated step time, {system}"]
                self.assertEqual(row["status"], state, row["reason"])
            self.assertIn(said, rows["shape", "simulated attainment, VllmSwap"]["reason"])

    def test_uncounted_and_refused_graphs_are_named(self):
        refused = {"made": 0, "replayed": 0, "launched": 300, "refused": "cudaErrorStreamCaptureInvalidated"}
        for graphs, status, said in (
            (None, "skipped", "sluice-run --json has no graphs"),
            (refused, "failed", "cudaErrorStreamCaptureInvalidated"),
            ({**refused, "refused": ""}, "failed", "no graph was replayed"),
        ):
            rows, _, _ = self.on_card({"help": FLAGS, "graphs": graphs}, "identity")
            row = rows["identity", "what launching without graphs costs, decoding"]
            self.assertEqual(row["status"], status)
            self.assertIn(said, row["reason"])
            self.assertEqual(rows["identity", "tokens of all systems"]["status"], "passed")

    def test_missing_flags_cost_the_rows_that_need_them(self):
        rows, _, _ = self.on_card({}, "identity", "shape", "peers")
        self.assertEqual(rows["identity", "tokens of all systems"]["status"], "passed")
        for stage, name, flag in (
            ("identity", "what invariant products cost, decoding", "--products"),
            ("identity", "what launching without graphs costs, decoding", "--no-graphs"),
            ("shape", shape.GATHERING, "--gather-below"),
            ("shape", "iteration beside max(compute, transfers), weights", "--random-weights"),
            ("shape", "profile", "--backend"),
            ("shape", "simulated attainment, OrbitFlow", "--backend"),
            ("peers", "ours, KV offloaded", "--random-weights"),
        ):
            self.assertEqual(rows[stage, name]["status"], "skipped")
            self.assertIn(f"has no {flag}", rows[stage, name]["reason"])


class Parts(unittest.TestCase):
    def test_logits_count_up_to_the_first_different_token(self):
        draw = random.Random(1)
        row = lambda: [draw.random() for _ in range(6)]
        tokens, others = [[1, 2, 3], [4, 5, 6]], [[1, 2, 3], [4, 9, 6]]
        rows = [row() for _ in range(6)]
        same = [list(one) for one in rows]
        same[5] = row()  # after the token that differs: from another text
        made = identity.row_of_logits(tokens, others, rows, same)
        self.assertEqual((made["status"], made["n"], made["value"]), ("passed", 5, 0.0))
        same[4] = row()
        self.assertEqual(identity.row_of_logits(tokens, others, rows, same)["status"], "failed")
        self.assertEqual(identity.row_of_logits([], [], [], [])["status"], "failed")
        self.assertEqual(identity.row_of_logits(tokens, others, rows, rows[:5])["status"], "failed")

    def test_programs_of_another_commit_are_detected(self):
        line = "sluice 0.1.0 (commit 8e9801c{}, release build)"
        for commit in ("8e9801c59a21", "8e9801c59a21+"):
            self.assertEqual(programs.other_commit(line.format(""), commit), "")
            self.assertEqual(programs.other_commit(line.format("-dirty"), commit), "")
        said = programs.other_commit(line.format(""), "9e9801c59a21")
        self.assertEqual(said, "it is of commit 8e9801c, and the sources of 9e9801c59a21")
        self.assertIn("says no commit", programs.other_commit("sluice", "8e9801c59a21"))
        self.assertIn("says no commit", programs.other_commit("sluice 0.1.0 (commit unknown, debug build)", "8e9801c"))

    def test_kill_waits_for_the_process_and_its_children(self):
        process = programs.started(["sh", "-c", "sleep 60 & echo $!; wait"], subprocess.DEVNULL)
        child = int(programs.lines_of(process).get(timeout=300))
        programs.kill(process)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        for _ in range(30000):  # the process that adopted it may reap it late
            try:
                state = Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                break
            if state == "Z":
                break
            time.sleep(0.01)
        else:
            self.fail("what it started runs on")
        process.stdout.close()

    def test_the_first_call_that_loads_a_model_may_take_longer_than_later_calls(self):
        limits = []

        class Asked:
            options = SimpleNamespace(emulated=True, row_limit=20)
            header, bin, loaded, unfit = {"binaries": "emulated"}, Path("/there"), False, {}

            def command(self, arguments, environment, limit):
                limits.append(limit)
                return 0, "{}", "", False

        run = Asked()
        for flags in (["--list"], ["--system", "AllResident"], ["--system", "VllmSwap"]):
            served.Served(run).call("sluice-run", *flags)
        self.assertEqual(limits, [60, 60, 40])

    def test_npy_files(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "one.npy"
            head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"
            begin = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head
            file.write_bytes(begin + struct.pack("<6f", *range(6)))
            self.assertEqual([list(one) for one in served.logits(file)], [[0, 1, 2], [3, 4, 5]])
            for wrong in (b"", begin + struct.pack("<5f", *range(5)), begin.replace(b"<f4", b"<f8")):
                file.write_bytes(wrong)
                with self.assertRaises(Exception):
                    served.logits(file)

    def test_rounds_are_distinguished_by_their_ends(self):
        asked = PEERS["ours, everything fits"].rehearsed()
        ends = [1.0, 1.0, 1.5, 1.5, 2.5, 2.5, 2.75, 2.75]
        rates = beside_peers.rates_of([{"e2e_s": one} for one in ends], asked)
        tokens = asked.requests * asked.generated
        self.assertEqual(rates, [tokens / 0.5, tokens / 1.0, tokens / 0.25])

    def test_the_clocks_of_work_count(self):
        fields = clocks.FIELDS[-1]
        row = clocks.summary("clocks during rates", ["345, 0, 2600, 90, 40", "1980, 99, 2600, 650.5, 60", "1"], fields)
        self.assertEqual((row["value"], row["reps"]), (1980.0, 1))
        self.assertIn("1 of 2 samples", row["config"])
        self.assertEqual(clocks.summary("clocks during rates", ["no"], fields)["status"], "skipped")

    def test_clocks_written_while_the_reader_ends_are_kept(self):
        smi = f"""#!{sys.executable} -IS
import signal, sys
ended = lambda *_: (print("1980, 99, 2600, 650.5, 60, 0x0", flush=True), sys.exit(0))
signal.signal(signal.SIGTERM, ended)
print("345, 0, 2600, 90, 40, 0x0", flush=True)
if "--loop-ms" in " ".join(sys.argv):
    signal.pause()
"""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "nvidia-smi").write_text(smi, encoding="utf-8")
            (Path(folder) / "nvidia-smi").chmod(0o755)
            before = os.environ["PATH"]
            os.environ["PATH"] = f"{folder}:{before}"
            try:
                read = clocks.Clocks()
                read.start()
                made = read.stop("clocks during rates")
            finally:
                os.environ["PATH"] = before
        self.assertEqual(made["value"], 1980.0)
        self.assertIn("1 of 2 samples", made["config"])

    def test_memory_is_counted_in_blocks(self):
        self.assertEqual(layer_block_bytes(TINY), 16384)
        self.assertEqual(layer_block_bytes(LLAMA3_8B) * 32, 128 * 1024 * BLOCK_TOKENS)
        self.assertEqual(kv_bytes(TINY, 3, 17), 3 * 2 * 8 * 16384)
        self.assertEqual(kv_bytes(TINY, 3, 17, layers=2), 3 * 2 * 2 * 16384)
        first, second = prompts(TINY, 2, 40)
        self.assertNotEqual(first[:8], second[:8])
        self.assertTrue(all(0 <= token < TINY["vocab_size"] for token in first + second))

    def test_a_traces_lengths_fit_its_memory(self):
        for size in (shape.CARD, shape.REHEARSED):
            longest = max(prompt + output for _, prompt, output in size.trace)
            self.assertLess(-(-longest // BLOCK_TOKENS), size.kv_blocks)
            all_of_them = sum(prompt + output for _, prompt, output in size.trace) / len(size.trace) * size.requests
            self.assertGreater(all_of_them / BLOCK_TOKENS, size.kv_blocks, "nothing would move")
            self.assertGreaterEqual(min(output for _, _, output in size.trace), 2)

    def test_peers_have_their_rows(self):
        theirs = [name for name in PEERS if not name.startswith("ours")]
        said = subprocess.run(
            [sys.executable, gpu / "peers.py", "--tiny"], stdout=subprocess.PIPE, text=True, check=False
        ).stdout
        rows = [json.loads(line) for line in said.splitlines() if '"begins"' not in line]
        self.assertEqual(sorted(row["name"] for row in rows), sorted(theirs))
        for row in rows:
            self.assertIn(row["status"], ("passed", "skipped"), row["reason"])
            self.assertIn((row["stage"], row["name"]), [("peers", name) for name in STAGES["peers"]])

    def test_output_of_libraries_is_not_part_of_a_row(self):
        planted = "import os\nos.write(1, b'a library, without a newline')\nprint('more', end='')\nraise ImportError"
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "torch.py").write_text(planted, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, gpu / "peers.py", "--tiny"],
                env={**os.environ, "PYTHONPATH": folder},
                capture_output=True,
                text=True,
                check=False,
            )
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(rows), 2 * sum(not name.startswith("ours") for name in PEERS))
        self.assertIn("a library, without a newline", done.stderr)
        self.assertIn("more", done.stderr)


if __name__ == "__main__":
    unittest.main()
