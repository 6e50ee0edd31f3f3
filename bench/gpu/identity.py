# SPDX-License-Identifier: Apache-2.0
"""The stage `identity`. It checks that all systems generate the same tokens and that logits match the CPU's, and
measures the cost of making a row's bits independent of the other rows in its batch."""
import math
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from rows import StageCut, StageFailed, StageSkipped, compared, row, skipped
from served import Refused, Served, cublas_folders, ids, logits, missing, repro, steps
from workload import prompts

root = Path(__file__).resolve().parent.parent.parent
STAGE = "identity"
REHEARSED = ("AllResident", "VllmSwap", "OrbitFlow", "HCache")
LOGITS_LIMIT = 2e-2  # for bf16: about a hundred roundings of 2^-9 each, which partly cancel


def identity(run):
    served = Served(run)
    served.needs("sluice-run")
    with tempfile.TemporaryDirectory() as folder:
        batches = Batches(served, folder)
        for part in NAMES:
            try:
                run.add(*part(served, folder, batches))
            except StageSkipped as why:
                run.add(*(skipped(STAGE, name, str(why)) for name in NAMES[part]))
            except Refused as why:
                run.add(*(row(STAGE, name, "", "failed", n=0, reason=str(why)) for name in NAMES[part]))
    if run.left() <= 0:
        raise StageCut()


def tokens_of_all(served, _folder, _batches):
    """Compares every system's tokens, with too little memory, with those of AllResident, which keeps all KV on the
    device."""
    systems = served.systems()
    if served.emulated:
        systems = [one for one in systems if one in REHEARSED]
    if "AllResident" not in systems or len(systems) < 2:
        raise StageFailed("sluice-run --list names no system other than AllResident")
    asked = [range(1, 19), range(5, 21), range(16, 0, -1)]
    flags = [*ids(asked), "--max-tokens", "40", "--ignore-end", "--kv-memory", "640KiB"]
    flags += served.on_device("sluice-run") + served.products("invariant")
    # Without --gather-below, each run measures below which size a kernel makes the copies. The flag fixes that size:
    # every other system uses the kernel for all copies below 1 MiB, the others never use it (0).
    below = [["--gather-below", size] for size in ("0", "1MiB")]
    stated = not served.emulated and served.takes("sluice-run", "--gather-below")
    asked_of = {system: flags + (below[i % 2] if stated else []) for i, system in enumerate(systems)}
    begin = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        outcomes = dict(zip(systems, pool.map(lambda system: told_by(served, system, asked_of[system]), systems)))
    cut = [system for system, outcome in outcomes.items() if outcome == "cut"]
    if "AllResident" in cut:
        raise StageCut()
    expected = outcomes["AllResident"]
    if isinstance(expected, str):
        raise Refused(f"AllResident: {expected}")
    tokens = [one["tokens"] for one in expected["requests"]]
    wrong, moved = [], 0
    for system, told in outcomes.items():
        if system in cut:
            continue
        if isinstance(told, str):
            wrong.append(f"{system} ({told})")
            continue
        moved += told["bytes_moved"] + told["preemptions"] > 0
        if [one["tokens"] for one in told["requests"]] != tokens:
            wrong.append(system)
    complete = missing(expected, 3, 40) == 0
    if cut and not wrong:
        behind = f"{len(systems) - len(cut)} of {len(systems)} systems, none of which differed"
        return [skipped(STAGE, NAMES[tokens_of_all][0], f"it was cut at the stage's limit after {behind}")]
    config = f"{len(systems) - len(cut)} systems on tiny, 640 KiB for KV; {moved} moved KV, weights or requests"
    passed = not wrong and moved > 0 and complete
    return [
        row(
            STAGE,
            "tokens of all systems",
            config,
            "passed" if passed else "failed",
            float(len(wrong)),
            "systems that differ",
            n=len(systems) - len(cut),
            reason=f"different from AllResident's: tokens of {', '.join(wrong) or 'none'}; {config}",
            repro=repro(["--system", "NAME", *flags, *(below[1] if stated else [])]),
            seconds=round(time.monotonic() - begin, 3),
            refcheck=compared(len(wrong), 0, len(systems) - len(cut)),
        )
    ]


def told_by(served, system, flags):
    """A system's result, or one line that states why it has none."""
    try:
        return served.told("--system", system, *flags)
    except StageCut:
        return "cut"
    except StageFailed as failure:
        return str(failure)


def logits_beside_the_cpu(served, folder, _batches):
    """The largest difference between demo's logits on the device (bf16 weights) and on the CPU (f32). Each request's
    rows are compared up to the first token that differs, because later rows continue a different text."""
    begin = time.monotonic()
    asked = [range(3, 40), range(700, 760), range(2000, 1980, -1)]
    flags = ["--model", root / "examples/models/demo", *ids(asked), "--max-tokens", "48", "--ignore-end"]
    here, cpu = Path(folder) / "device.npy", Path(folder) / "cpu.npy"
    on_device = served.on_device("sluice-run") + served.products("invariant")
    # The rehearsal has no second device, so it runs the requests one at a time instead, which changes their batch.
    alone = ["--batch", "1"] if served.emulated else []
    found = served.told(*flags, *on_device, *alone, "--logits", here)
    expected = served.told(*flags, "--logits", cpu)
    return [
        row_of_logits(
            [one["tokens"] for one in found["requests"]],
            [one["tokens"] for one in expected["requests"]],
            logits(here),
            logits(cpu),
            repro=repro([*flags, *on_device, "--logits", "FILE"], root),
            seconds=round(time.monotonic() - begin, 3),
        )
    ]


def row_of_logits(tokens, expected_tokens, rows, expected_rows, **about):
    at, errors = 0, []
    for mine, theirs in zip(tokens, expected_tokens):
        same = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), len(theirs) - 1)
        for i in range(at, at + same + 1):
            off = math.dist(rows[i], expected_rows[i])
            errors.append(off / math.hypot(*expected_rows[i]))
        at += len(theirs)
    sizes = len(rows) == len(expected_rows) == at and all(map(len, tokens)) and len(tokens) == len(expected_tokens)
    # max() would ignore a NaN.
    worst = math.nan if any(map(math.isnan, errors)) else max(errors, default=math.nan)
    passed = sizes and len(errors) > 0 and worst <= LOGITS_LIMIT
    config = f"demo, bf16, largest error of {len(errors)} of {at} rows, {len(tokens)} requests"
    return row(
        STAGE,
        "logits beside the CPU",
        config,
        "passed" if passed else "failed",
        None if math.isnan(worst) else worst,
        "of the CPU's, Euclidean",
        n=len(errors),
        reason=f"off by {worst:.3g}, limit {LOGITS_LIMIT:g}; {config}",
        refcheck=None if math.isnan(worst) else compared(worst, LOGITS_LIMIT, len(errors)),
        **about,
    )


@dataclass(frozen=True)
class Ran:
    """One run of Batches: the times of iterations in which all requests decode, and of those that compute all prompts,
    without the first batch, which warms up; the number of missing tokens; how layers were launched, if the program
    reports it; and the command."""

    decoding: list
    prompts: list
    owed: int
    graphs: Optional[dict]
    repro: str


class Batches:
    """Requests of one length, in batches. Each batch ends before the next begins. Runs once with each set of flags."""

    LAYERS = 8  # all layers use the same kernels; more layers would only take longer to load
    COUNT, REQUESTS, LENGTH, GENERATED = 6, 16, 512, 9
    TOKENS = COUNT * REQUESTS * GENERATED
    TEXT = f"{COUNT - 1} batches of {REQUESTS} x {LENGTH} tokens, llama3-8b of {LAYERS} layers, random weights"

    def __init__(self, served, folder):
        self.served = served
        self.folder = folder
        self.ran = {}

    def run(self, *more):
        if more not in self.ran:
            self.ran[more] = self.measured(more)
        return self.ran[more]

    def measured(self, more):
        served, timeline = self.served, Path(self.folder) / "timeline.json"
        asked = prompts(served.shape(self.LAYERS), self.COUNT * self.REQUESTS, self.LENGTH)
        flags = [*served.model("sluice-run", self.folder, self.LAYERS), *served.on_device("sluice-run"), *more]
        flags += [*ids(asked), "--max-tokens", self.GENERATED, "--ignore-end", "--batch", self.REQUESTS]
        flags += ["--max-batch-tokens", self.REQUESTS * self.LENGTH]
        told = served.told(*flags, "--timeline", timeline)
        every = steps(timeline)
        decoding = [took for rows, decodes, took in every if decodes == self.REQUESTS]
        prompted = [took for rows, decodes, took in every if decodes == 0 and rows > 0]
        owed = missing(told, self.COUNT * self.REQUESTS, self.GENERATED)
        graphs = told.get("graphs")
        return Ran(decoding[self.GENERATED - 1 :], prompted[1:], owed, graphs, repro(flags, self.folder))


def dearer(name, slow, fast, slow_took, fast_took, wrong="", about="", **more):
    """How much longer the slow run's iterations are than the fast run's median, in percent."""
    owed = slow.owed + fast.owed
    few = min(len(slow_took), len(fast_took)) < 3
    if not wrong and (owed or few):
        wrong = f"{owed} tokens are missing" if owed else "fewer than 3 such iterations were seen"
    middle = statistics.median(fast_took) if not few else 1.0
    return row(
        STAGE,
        name,
        Batches.TEXT + about,
        "failed" if wrong else "passed",
        samples=[] if wrong else [100 * (one / middle - 1) for one in slow_took],
        unit="% of an iteration",
        n=2 * Batches.TOKENS,
        reason=wrong,
        repro=slow.repro,
        refcheck=compared(owed, 0, 2 * Batches.TOKENS),
        **more,
    )


def cost_of_invariance(served, _folder, batches):
    """Compares invariant products with the fastest ones, by the times of decoding and of prompt iterations."""
    if served.emulated:
        raise StageSkipped("the CPU has only invariant products")
    if not served.takes("sluice-run", "--products"):
        raise StageSkipped("sluice-run has no --products: it has only invariant products")
    if not cublas_folders():
        raise StageSkipped("cuBLASLt, which has the fast products, is missing")
    begin = time.monotonic()
    slow, fast = (batches.run(*served.products(which)) for which in ("invariant", "fast"))
    names = NAMES[cost_of_invariance]
    more = {"seconds": round(time.monotonic() - begin, 3)}
    return [
        dearer(names[0], slow, fast, slow.decoding, fast.decoding, **more),
        dearer(names[1], slow, fast, slow.prompts, fast.prompts, **more),
    ]


def cost_of_launches(served, _folder, batches):
    """Compares a decoding iteration whose kernels are launched one by one with one whose layers are graphs."""
    if served.emulated:
        raise StageSkipped("a processor launches no kernels")
    if not served.takes("sluice-run", "--no-graphs"):
        raise StageSkipped("sluice-run has no --no-graphs")
    begin = time.monotonic()
    graphed = batches.run(*served.products("fast"))
    if graphed.graphs is None:
        raise StageSkipped("sluice-run --json has no graphs, so it is unknown whether any were replayed")
    launched = batches.run(*served.products("fast"), "--no-graphs")
    made, replayed, one_by_one = (graphed.graphs.get(name, 0) for name in ("made", "replayed", "launched"))
    refused = graphed.graphs.get("refused")
    said = f"{replayed} sequences replayed by {made} graphs, {one_by_one} launched"
    wrong = ""
    if refused or not replayed:
        wrong = f"{said}: {refused or 'no graph was replayed'}"
    elif (launched.graphs or {}).get("replayed", 0):
        wrong = f"--no-graphs replayed {launched.graphs['replayed']} sequences"
    more = {"about": f"; {said}", "wrong": wrong, "seconds": round(time.monotonic() - begin, 3)}
    return [dearer(NAMES[cost_of_launches][0], launched, graphed, launched.decoding, graphed.decoding, **more)]


# In the order of the calls: a cut drops the last ones.
NAMES = {
    logits_beside_the_cpu: ["logits beside the CPU"],
    cost_of_invariance: ["what invariant products cost, decoding", "what invariant products cost, prompts"],
    cost_of_launches: ["what launching without graphs costs, decoding"],
    tokens_of_all: ["tokens of all systems"],
}
