# SPDX-License-Identifier: Apache-2.0
"""The stage shape: Llama-3-8B's shape with random weights and less memory for KV than its requests have, so that
systems move KV. Compares an iteration with only computing and only copying, and every system's run with its simulation
by the profile that sluice-profile measured here."""
import csv
import gzip
import json
import math
import shutil
import statistics
import tarfile
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from rows import StageCut, StageFailed, StageSkipped, compared, row, skipped
from schema import LATER, OFFLOADS, OVERLAPS, SYSTEMS, WITH_TIERS
from served import Refused, Served, ids, missing, repro, steps
from workload import BLOCK_TOKENS, kv_bytes, layer_block_bytes, prompts

STAGE = "shape"
TIMELINES = "timelines.tar"  # of the systems that --timelines names
EVERY_SYSTEM = (*SYSTEMS, *LATER)
DEPOSITS = ("OrbitFlow", "OrbitFlowPool")  # these hold tokens back, and are in another table of sluice-compare
PROMISE = 3  # the SLO between tokens, in decoding iterations with everything on the device


@dataclass(frozen=True)
class Size:
    """The sizes of a measurement."""

    overlap_layers: int = 16  # drawing weights takes half a minute for 32
    table_layers: int = 8  # all layers have the same kernels and copies; the profile has as many as the runs
    table_vocabulary: int = 32768  # a quarter of the model's: the head has as many weights as five layers
    requests: int = 8
    prompt: int = 1024
    generated: dict = field(default_factory=lambda: {"KV": 24, "weights": 6})
    batch_tokens: int = 2048
    kv_blocks: int = 256  # for the table, in all layers
    seconds: int = 8  # of profiling
    systems: tuple = EVERY_SYSTEM
    trace: tuple = ()  # seconds, prompt, output
    long: tuple = (32, 4096, 64)  # requests, prompt, output: long contexts in a large batch


def trace(requests, prompt, output):
    """Requests with lengths from half to one and a half of the mean, in mixed order. All arrive at once, so that a run
    and its simulation form the same batches whatever the timing."""
    return tuple(
        (0.0, prompt // 2 + i * 7 % 11 * prompt // 10, output // 2 + i * 5 % 7 * output // 6) for i in range(requests)
    )


CARD = Size(trace=trace(24, 1024, 32))
REHEARSED = Size(
    requests=4,
    prompt=48,
    generated={"KV": 8, "weights": 6},
    batch_tokens=256,
    kv_blocks=12,
    seconds=1,
    systems=("VllmSwap", "DeepSpeedInference", "OrbitFlow"),
    trace=trace(6, 64, 8),
    long=(6, 64, 8),
)
LINKS = {"KV": "20MB/s", "weights": "100MB/s"}  # of a rehearsal, slow enough to be the bottleneck
GATHERING = "what copies without the gathering kernel cost, KV"
SYSTEM_OF = {"KV": "DeepSpeedInference", "weights": "DeepSpeedWeights"}  # all of this data crosses the link in each
                                                                         # iteration


def shape(run):
    served = Served(run)
    served.needs("sluice-run", "sluice-profile", "sluice-compare")
    size = REHEARSED if served.emulated else CARD
    (run.out / TIMELINES).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder, served.weights_kept():
        folder = Path(folder)
        resident, streamed = None, {}  # the decoding iterations, by the data that crosses the link
        for what in OVERLAPS:
            name = f"iteration beside max(compute, transfers), {what}"
            try:
                if resident is None:
                    resident = decoding(served, folder, size, "AllResident", max(size.generated.values()), [])
                run.add(overlap(run, served, folder, size, what, name, resident, streamed))
            except StageSkipped as why:
                run.add(skipped(STAGE, name, str(why)))
            except Refused as why:
                run.add(row(STAGE, name, "", "failed", n=0, reason=str(why)))
        try:
            run.add(gathering(served, folder, size, streamed))
        except StageSkipped as why:
            run.add(skipped(STAGE, GATHERING, str(why)))
        except Refused as why:
            run.add(row(STAGE, GATHERING, "", "failed", n=0, reason=str(why)))
        try:
            run.add(offloads(served, folder, size))
        except StageSkipped as why:
            run.add(skipped(STAGE, OFFLOADS, str(why)))
        except Refused as why:
            run.add(row(STAGE, OFFLOADS, "", "failed", n=0, reason=str(why)))
        table(run, served, folder, size)


# --- offloading beside none, in the same memory


def offloads(served, folder, size):
    """Tokens per second of OrbitFlow over those of vLLM's recompute, which offloads nothing. Both have the memory of a
    third of the requests' KV, and all requests arrive at once."""
    begin = time.monotonic()
    requests, prompt, output = size.long
    model = served.shape(size.table_layers, size.table_vocabulary)
    memory = kv_bytes(model, requests, prompt + output) // 3
    link = ["--link", "500MB/s"] if served.emulated else []
    rates, said = {}, []
    for system in ("OrbitFlow", "VllmRecompute"):
        served.wants(system)
        flags = ["--system", system, *served.model("sluice-run", folder, size.table_layers, size.table_vocabulary)]
        flags += [*served.on_device("sluice-run"), *served.products("fast"), "--kv-memory", memory, *link]
        flags += [*ids(prompts(model, requests, prompt)), "--max-tokens", output, "--ignore-end"]
        flags += ["--batch", requests, "--max-batch-tokens", max(size.batch_tokens, prompt)]
        told = served.told(*flags)
        if owed := missing(told, requests, output):
            raise Refused(f"{system} owes {owed} tokens")
        rates[system] = requests * output / max(one["e2e_s"] for one in told["requests"])
        said.append(f"{system} {rates[system]:.1f} tokens/s, {told['preemptions']} preemptions")
    tokens = 2 * requests * output
    return row(
        STAGE,
        OFFLOADS,
        f"{requests} x {prompt} tokens and {output} more on {model['_name_or_path']}, {model['num_hidden_layers']} "
        f"layers, {memory / 2**20:.4g} MiB for KV: {'; '.join(said)}",
        value=rates["OrbitFlow"] / rates["VllmRecompute"],
        unit="x",
        n=tokens,
        repro=repro(flags, folder),
        seconds=round(time.monotonic() - begin, 3),
        refcheck=compared(0, 0, tokens),
    )


# --- an iteration compared with only computing and only copying


def decoding(served, folder, size, system, generated, more):
    """The times of iterations in which all requests decode, bytes that all iterations moved to the device, their
    number, and the command."""
    served.wants(system)
    timeline = folder / "timeline.json"
    flags = ["--system", system, *served.model("sluice-run", folder, size.overlap_layers)]
    flags += [*served.on_device("sluice-run"), *served.products("fast"), *more]
    asked = prompts(served.shape(size.overlap_layers), size.requests, size.prompt)
    flags += [*ids(asked), "--max-tokens", generated, "--ignore-end", "--batch", size.requests]
    flags += ["--max-batch-tokens", size.requests * size.prompt]
    told = served.told(*flags, "--timeline", timeline)
    if owed := missing(told, size.requests, generated):
        raise Refused(f"{system} owes {owed} tokens")
    every = steps(timeline)
    took = [seconds for _, decodes, seconds in every if decodes == size.requests]
    if len(took) < 3:
        raise Refused(f"{system} had {len(took)} iterations in which all decode; expected {generated - 1}")
    return took, told["metrics"]["bytes_to_device"], len(every), repro(flags, folder)


def kv_memory(model, size, what):
    """If KV streams, two of its layers are on the device: the one that computes, and the next. Otherwise all are."""
    return kv_bytes(model, size.requests, size.prompt + size.generated[what], layers=2 if what == "KV" else None)


def overlap(run, served, folder, size, what, name, resident, streamed):
    begin = time.monotonic()
    system, generated = SYSTEM_OF[what], size.generated[what]
    model = served.shape(size.overlap_layers)
    memory = kv_memory(model, size, what)
    link = ["--link", LINKS[what]] if served.emulated else []
    took, moved, all_of_them, again = decoding(
        served, folder, size, system, generated, ["--kv-memory", memory, *link]
    )
    streamed[what] = took
    rate = rate_of_link(run, served, what)
    # The first decoding iteration's data arrived behind the prompts, and the last fetches nothing for a next one. A
    # prompt that takes one iteration fetches no K and V; weights are all fetched in every iteration.
    offloaded, alone = took[1:-1], resident[0]
    moved /= len(took) if what == "KV" else all_of_them
    copying = moved / rate
    computing = statistics.median(alone)
    ratios = [one / max(computing, copying) for one in offloaded]
    tokens = size.requests * generated
    config = (
        f"{size.requests} x {size.prompt} tokens on {model['_name_or_path']}, {model['num_hidden_layers']} layers, "
        f"{system}: {1e3 * statistics.median(offloaded):.2f} ms; computing alone {1e3 * computing:.2f} ms, "
        f"{moved * 1e-6:.4g} MB at the rate of one large copy {1e3 * copying:.2f} ms"
    )
    about = {"seconds": round(time.monotonic() - begin, 3), "repro": again}
    if copying < computing:
        return row(STAGE, name, config, "skipped", reason=f"the link does not bind: {config}", **about)
    return row(
        STAGE, name, config, samples=ratios, unit="x", n=tokens, refcheck=compared(0, 0, tokens), **about
    )


def gathering(served, folder, size, streamed):
    """An iteration with all copies by the driver, compared with one in which a kernel makes the small ones. The size
    was measured on an idle GPU; here it computes."""
    begin = time.monotonic()
    if served.emulated:
        raise StageSkipped("a processor copies by itself")
    if not served.takes("sluice-run", "--gather-below"):
        raise StageSkipped("sluice-run has no --gather-below")
    system, generated = SYSTEM_OF["KV"], size.generated["KV"]
    model = served.shape(size.overlap_layers)
    memory = ["--kv-memory", kv_memory(model, size, "KV")]
    if "KV" not in streamed:
        raise StageSkipped("there is no iteration of KV that it would stand beside")
    driver, _, _, again = decoding(served, folder, size, system, generated, [*memory, "--gather-below", 0])
    middle = statistics.median(streamed["KV"][1:-1])
    tokens = size.requests * generated
    return row(
        STAGE,
        GATHERING,
        f"{size.requests} x {size.prompt} tokens on {model['_name_or_path']}, {model['num_hidden_layers']} layers, "
        f"{system}, copies of {layer_block_bytes(model) >> 10} KiB: {1e3 * middle:.2f} ms as measured at the start",
        samples=[100 * (one / middle - 1) for one in driver[1:-1]],
        unit="% of an iteration",
        n=tokens,
        repro=again,
        seconds=round(time.monotonic() - begin, 3),
        refcheck=compared(0, 0, tokens),
    )


def rate_of_link(run, served, what):
    if served.emulated:
        return float(LINKS[what].removesuffix("MB/s")) * 1e6
    for one in run.rows:
        if (one["stage"], one["name"], one["status"]) == ("ceilings", "to the device", "passed"):
            return one["value"] * 1e9
    raise StageSkipped("there is no ceiling of copies to the device in this run")


# --- every system, run and simulated


def table(run, served, folder, size):
    names = [f"simulated {what}, {system}" for system in EVERY_SYSTEM for what in ("step time", "attainment")]
    profile = folder / "profile"
    try:
        run.add(profiled(served, folder, size, profile))
    except StageSkipped as why:
        run.add(*(skipped(STAGE, name, str(why)) for name in ("profile", *names)))
        return
    except (Refused, OSError, ValueError, KeyError) as why:
        run.add(row(STAGE, "profile", "", "failed", n=0, reason=str(why)))
        run.add(*(skipped(STAGE, name, "there is no profile") for name in names))
        return
    recorded = folder / "trace.csv"
    lines = [f"2026-01-01 00:00:{at:010.7f},{prompt},{output}" for at, prompt, output in size.trace]
    recorded.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines, ""]), encoding="utf-8")
    there = set(served.systems())
    if unknown := there - {"AllResident", *EVERY_SYSTEM, *WITH_TIERS}:
        raise StageFailed(f"bench/gpu/schema.py has no rows for {', '.join(sorted(unknown))}, which sluice-run names")
    resident = run_system(served, folder, size, profile, recorded, "AllResident", [])
    promise = max(1e-4, round(PROMISE * resident["step"], 4))
    for system in EVERY_SYSTEM:
        if system in size.systems and system in there:
            run.add(*beside_the_simulated(served, folder, size, profile, recorded, system, promise))
            continue
        why = "a rehearsal runs a few of them"
        if system in size.systems:
            why = f"sluice-run --list does not name {system}"
        run.add(*(skipped(STAGE, f"simulated {what}, {system}", why) for what in ("step time", "attainment")))


def profiled(served, folder, size, profile):
    """Measures a profile with sluice-profile; its times must be above 0 and its other numbers not below."""
    begin = time.monotonic()
    flags = ["--measure", *served.on_device("sluice-profile"), *served.products("fast", "sluice-profile")]
    flags += served.model("sluice-profile", folder, size.table_layers, size.table_vocabulary)
    flags += ["--seconds", size.seconds, "--quiet", *(["--link", "500MB/s"] if served.emulated else [])]
    served.call("sluice-profile", *flags, "--out", profile, more_s=size.seconds)
    shutil.make_archive(str(served.run.out / "profile"), "gztar", profile)  # for simulations of the card elsewhere
    device = json.loads((profile / "device.json").read_text(encoding="utf-8"))
    numbers = []
    for file in sorted(profile.glob("*.csv")):
        with open(file, encoding="utf-8", newline="") as lines:
            for cells in csv.DictReader(line for line in lines if not line.startswith("#")):
                # alpha places one measurement between two others: noise may put it outside
                numbers += [float(one) for name, one in cells.items() if name != "alpha" and one and is_number(one)]
    wrong = sum(not math.isfinite(one) or one < 0 for one in numbers)
    seconds = round(time.monotonic() - begin, 3)
    rate = device["host_to_device_bytes_per_s"] * 1e-9
    config = f"{device['name']}: {len(numbers)} numbers, a link of {rate:.2f} GB/s"
    return row(
        STAGE,
        "profile",
        config,
        "passed" if numbers and not wrong else "failed",
        seconds,
        "s",
        n=max(1, len(numbers)),
        reason=f"{wrong} of {len(numbers)} numbers are below nothing, or none",
        repro=repro(flags, folder, "sluice-profile"),
        seconds=seconds,
        refcheck=compared(wrong, 0, len(numbers)),
    )


def is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def shared_flags(size):
    return ["--batch", size.requests, "--max-batch-tokens", size.batch_tokens]


def run_system(served, folder, size, profile, recorded, system, promises):
    """A system's run of the trace: its median and mean step, attainment, iterations, and the command. Steps are those
    in which a request decodes. The median excludes iterations that launch kernels one by one or capture graphs, which
    the simulation does not model. With everything on the device: AllResident, without an SLO."""
    model = served.shape(size.table_layers)
    flags = ["--system", system, *served.model("sluice-run", folder, size.table_layers, size.table_vocabulary)]
    flags += [*served.on_device("sluice-run"), *served.products("fast", "sluice-profile")]
    flags += ["--profile", profile, *shared_flags(size)]
    flags += ["--trace", recorded, "--format", "azure", *(["--link", "500MB/s"] if served.emulated else [])]
    if system != "AllResident":
        flags += ["--kv-memory", size.kv_blocks * model["num_hidden_layers"] * layer_block_bytes(model)]
    timeline = folder / "timeline.json"
    kept = system in served.run.options.timelines
    told = served.told(*flags, *promises, "--timeline", timeline, *(["--trace-at", "all"] if kept else []))
    if kept:
        keep(served.run, timeline, system)
    owed = sum(abs(output - len(one["tokens"])) for one, (_, _, output) in zip(told["requests"], size.trace))
    owed += sum(one["status"] != "done" for one in told["requests"])
    decoded = [seconds for _, decodes, seconds in steps(timeline) if decodes > 0]
    if not decoded:
        raise Refused(f"{system} had no iteration in which a request decodes")
    return {
        "step": statistics.median(decoded),
        "mean": statistics.fmean(decoded),
        "attainment": told["metrics"]["tbt_attainment"],
        "iterations": told["metrics"]["iterations"],
        "owed": owed,
        "repro": repro(flags, folder),
    }


def keep(run, timeline, system):
    """Keeps a system's timeline: each layer and copy, to look for the reason why its simulation differs."""
    packed = timeline.with_name(f"{system}.json.gz")
    packed.write_bytes(gzip.compress(timeline.read_bytes(), 6))
    with tarfile.open(run.out / TIMELINES, "a") as archive:
        archive.add(packed, packed.name)


def simulate(served, folder, size, profile, recorded, system, promise):
    flags = ["--profile", profile, "--device", profile / "device.json", "--trace", recorded, "--format", "azure"]
    flags += ["--kv-blocks", size.kv_blocks, *shared_flags(size), "--slo-tbt", promise, "--slo-scale", 1, "--quiet"]
    flags += ["--deposit", "on" if system in DEPOSITS else "off", "--systems", system]
    flags += ["--table", "csv", "--columns", "system,tbt,iterations"]
    report = folder / f"simulated-{system}"
    said = served.call("sluice-compare", *flags, "--out", report)
    of = next((one for one in csv.DictReader(said.splitlines()) if one["system"] == system), None)
    if of is None:
        raise Refused(f"sluice-compare says nothing of {system}")
    with open(report / "iterations.csv", encoding="utf-8", newline="") as lines:
        every = [one for one in csv.DictReader(lines) if one["system"] == system]
    decoded = [float(one["duration_s"]) for one in every if int(one["decodes"]) > 0]
    if not decoded:
        raise Refused(f"sluice-compare has no iteration of {system} in which a request decodes")
    steps = {"step": statistics.median(decoded), "mean": statistics.fmean(decoded)}
    return {**steps, "attainment": float(of["tbt"]), "iterations": int(float(of["iterations"]))}


def beside_the_simulated(served, folder, size, profile, recorded, system, promise):
    begin = time.monotonic()
    names = {"step": f"simulated step time, {system}", "attainment": f"simulated attainment, {system}"}
    tokens = sum(output for _, _, output in size.trace)
    try:
        foreseen = simulate(served, folder, size, profile, recorded, system, promise)
        promises = ["--slo-tbt", promise, "--slo-ttft", 5]
        ran = run_system(served, folder, size, profile, recorded, system, promises)
    except StageCut:
        raise
    except (Refused, KeyError, ValueError, OSError) as why:
        return [row(STAGE, name, "", "failed", n=0, reason=str(why)) for name in names.values()]
    off = {
        "step": 100 * (foreseen["step"] / ran["step"] - 1),
        "attainment": None if ran["attainment"] is None else 100 * (foreseen["attainment"] - ran["attainment"]),
    }
    said = {
        "step": f"{1e3 * foreseen['step']:.3f} ms simulated, {1e3 * ran['step']:.3f} ms run",
        "attainment": f"{100 * foreseen['attainment']:.1f} % simulated, {100 * (ran['attainment'] or 0):.1f} % run",
    }
    about = (
        f"means {1e3 * foreseen['mean']:.3f} and {1e3 * ran['mean']:.3f} ms; "
        f"iterations {foreseen['iterations']} and {ran['iterations']}; {len(size.trace)} requests, "
        f"{size.kv_blocks * BLOCK_TOKENS} tokens of KV, {1e3 * promise:g} ms a token promised"
    )
    rows = []
    for what, name in names.items():
        number = off[what] is not None and math.isfinite(off[what])
        rows.append(
            row(
                STAGE,
                name,
                f"{said[what]}; {about}",
                "passed" if number and ran["owed"] == 0 else "failed",
                off[what] if number else None,
                "%" if what == "step" else "points",
                n=tokens,
                reason=f"{ran['owed']} tokens or requests are missing" if number else "there is nothing to compare",
                repro=ran["repro"],
                seconds=round(time.monotonic() - begin, 3),
                refcheck=compared(ran["owed"], 0, tokens),
            )
        )
    return rows
