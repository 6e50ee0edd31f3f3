#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/gpu.md from the newest result file of a real device.

usage: report.py              writes docs/gpu.md, and its images docs/images/gpu-*.svg
       report.py --check      fails if the page is stale
       report.py --add FILE   checks FILE against its schema, copies it to bench/results/<device>/<date>-<commit>.json
                              (device, date and commit are the run's), and writes docs/gpu.md"""
import json
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from check import Unreadable, check, load  # noqa: E402
from plots import plots  # noqa: E402
from schema import AGAINST, LATER, NOT_ASKED, OVERLAPS, STAGES, SYSTEMS  # noqa: E402

root = Path(__file__).resolve().parent.parent.parent
results = root / "bench/results"
page = root / "docs/gpu.md"
images = root / "docs/images"
NOT_YET = "not yet measured"


def needs(*names, counts=()):
    """Attaches to a claim its required rows, so that a test can remove each of them, and the rows that it counts if
    they exist."""

    def named(measured):
        measured.needs = names
        measured.counts = counts
        return measured

    return named


def passed(rows, stage, name):
    found = [row for row in rows if (row["stage"], row["name"]) == (stage, name) and row["status"] == "passed"]
    return found


def shares(stage, *names):
    """The least share of some rows; None unless each was measured and has a ceiling."""

    @needs(*((stage, name) for name in names))
    def measured(rows):
        of = [row["share"] for name in names for row in passed(rows, stage, name)]
        if len(of) < len(names) or any(share is None for share in of):
            return None
        return f"{100 * min(of):.0f} %"

    return measured


def values(stage, *names):
    @needs(*((stage, name) for name in names))
    def measured(rows):
        of = [f"{name}: {row['value']:.3g} {row['unit']}" for name in names for row in passed(rows, stage, name)]
        return "; ".join(of) if len(of) >= len(names) else None

    return measured


def best_copies(where):
    """For each block size, the share of one large copy that the best passing way reaches."""

    names = [name for name in STAGES["copies"] if name.endswith(where)]

    @needs(counts=tuple(("copies", name) for name in names))
    def measured(rows):
        of = [row for name in names for row in passed(rows, "copies", name) if row["share"] is not None]
        best = {}
        for row in of:
            if row["config"] not in best or row["share"] > best[row["config"]]["share"]:
                best[row["config"]] = row
        return "; ".join(
            f"{config}: {100 * row['share']:.0f} % ({row['name'].rsplit(', ', 1)[0]})" for config, row in best.items()
        ) or None

    return measured


def farthest(what, unit, limit):
    """How many of the systems that were run are within `limit` of their simulation, and the farthest."""
    names = {f"simulated {what}, {system}": system for system in (*SYSTEMS, *LATER)}

    @needs(counts=tuple(("shape", name) for name in names))
    def measured(rows):
        of = [(row["value"], names[name]) for name in names for row in passed(rows, "shape", name)]
        if not of:
            return None
        value, system = max(of, key=lambda one: abs(one[0]))
        near = sum(abs(one) <= limit for one, _ in of)
        others = "" if len(of) == len(names) else f" that ran, of {len(names)}"
        return f"{near} of {len(of)} systems{others}; the farthest, {system}: {value:+.1f} {unit}"

    return measured


def times(name, of_ours=True):
    """Our speedup over theirs."""
    stage, other = AGAINST["peers", name].split("/")

    @needs(("peers", name), (stage, other))
    def measured(rows):
        mine, theirs = passed(rows, "peers", name), passed(rows, stage, other)
        if not mine or not theirs or not mine[0]["share"]:
            return None
        share = mine[0]["share"] if of_ours else 1 / mine[0]["share"]
        ours, others = (mine[0], theirs[0]) if of_ours else (theirs[0], mine[0])
        return f"{share:.2f}x: {ours['value']:.3g} and {others['value']:.3g} {ours['unit']}"

    return measured


def all_of(stage):
    @needs(*((stage, name) for name in STAGES[stage]))
    def measured(rows):
        of = [row for row in rows if row["stage"] == stage]
        if any(row["status"] == "skipped" for row in of) or not set(STAGES[stage]) <= {row["name"] for row in of}:
            return None
        good = sum(row["status"] == "passed" for row in of)
        return f"{good} of {len(of)} rows, {sum(row['n'] for row in of)} cases"

    return measured


DECODE = ["attention, 8 decode at 4k", "attention, 32 decode at 4k", "attention, 8 decode at 16k"]
# What follows from the kernels and from a card's data sheet. A measured row replaces a line here.
CALCULATED = """
## Calculated, not measured

For an H100: 132 SMs at 1.755 GHz, each with 128 bytes of shared memory and 64 bytes of the L2 cache per clock.

| what | calculated | before |
|---|---|---|
| SMs with work, products of a layer of Llama-3-8B, 33 to 64 rows | 128 to 132 ([all rows](kernels.md#filling-a-gpu)) | 32 to 132 |
| blocks of attention, 8 requests of 1,024 tokens, eight KV heads | 256, of 256 tokens each | 128, of 512 |
| one row's largest logit among 128,256 | 32 blocks, 16 KiB each | one block, 501 KiB: at least 4.6 us |
| one row's top-k 50 and top-p 0.9 of these | 32 blocks, six times 16 KiB each; then one, 13 times 12.5 KiB | one block, 14 times 501 KiB: at least 64 us |
| launches of a decode step of 32 layers in which nothing moves | an upload and two graphs, with two tickets of its layers | two uploads, 32 graphs and five kernels, 64 tickets |
| experts of 8,192 rows, eight of each, placed | every read a whole line of memory | a line per number |
| attention of prompts, bf16, heads of 128 | at most 380 TFLOP/s; 250 to 320 expected | 474 wanted |

**Attention of prompts.** For 16 rows and 64 tokens, 0.52 MFLOP, a warp reads 32 KiB of K and V from shared memory, and
its share of the copies into it is 8 KiB: 320 clocks of an SM. The tensor cores take 203, since `mma.sync` reaches 63 %
of a Hopper SM's 4,096 FLOP per clock (Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture",
2024). So shared memory limits the kernel to 1,638 FLOP per clock and SM, 380 TFLOP/s, 48 % of a cuBLAS that reaches
790; the softmax takes about 140 clocks of other units, and overlaps only in part. The aim was 60 %, 474 TFLOP/s, which
this kernel cannot reach.

Rejected for now: 32 rows a warp. They would read K and V half as often, but 128 sums of values, 64 of scores and 64
registers of queries are more than a thread's 255. With queries in shared memory and pages of 32 tokens, shared memory
takes 224 clocks and the limit is 542 TFLOP/s, of which 474 would be 87 %. Pages decide a row's bits, so decoding would
get the short pages as well. `wgmma` reads K and V from shared memory once for 64 rows; no emulator of it exists here.
"""
# What runs on a GPU have shown so far, by commit, and what they could not tell.
SEEN = """
## What the runs have shown

Four runs on an H200: 51f8589, 7758f93 and ed8de67 on 2026-11-27 and f8c910d on 2026-11-28. The last two had time for
all stages; this page shows the last. A fifth had `ceilings` and `shape` alone, 98d1424 with a name changed in a script.
`bench/results` has all five.

**Mended after the first run.** The kernels' tests, memcheck and the rates found three faults; after that all tests of
kernels pass but one, which cannot hold on a GPU (it plants missing waits, and a GPU's timing may hide them; a run
leaves it out now). In the third run racecheck ended for the first time, without an error, and 34 systems had the same
tokens, with `AptServe` new among them.

- `GroupedProduct`, the product of a mixture of experts, read the weights of an expert that does not exist. nvcc 13.0
  compiles `std::countr_zero` in device code to the constant 32. `lowest_bit` ([device.hpp](../kernels/device.hpp))
  does the same by `std::bit_width`, and a row of `primitives` checks it.
- Two rows of `rates` had too little memory: queries in f32, and the sums of a product of 4,096 rows.
- A link's batches had 4 MiB and 64 copies, and an iteration took 1.12 (KV) and 1.09 (weights) times the larger of
  compute and copies. With 16 MiB and 256 copies it took 1.08 and 1.06.

**Mended after the second run.** Timelines of single iterations (`bench/gpu/run --timelines`), beside those of the
simulator, showed three reasons why systems that move KV or weights within an iteration took longer than simulated (a
step of OrbitFlowPool 37 %, the mean iteration of FlexGenWeights 57 %):

| what was wrong | what showed it | before | now |
|---|---|---|---|
| a layer waited for the whole batch that its last copy was in, up to 16 MiB, 0.3 ms | OrbitFlowPool's step, by programs with and without the change in one call | 4.22 ms | 3.65 ms |
| | an iteration beside the larger of compute and copies: KV, weights | 1.08, 1.06 | 1.05, 1.04 |
| each iteration that took new blocks evicted all prefetched KV, and fetched it again | bytes on the link over those of the plan (`sluice-run --json`): Confluence, OrbitFlow | 1.50, 1.15 | 1.07, 1.03 |
| a layer with a streamed share was cut at any row of a matrix, and the library's products were slow there | FlexGenWeights' mean iteration | 7.02 ms | 4.94 ms |

Together, the step of OrbitFlowPool fell from 4.2 to 3.3 ms, of Confluence from 1.8 to 1.5 (in f8c910d it is 1.8 again),
of DynamicHeuristic from 4.4 to 3.9, and of OrbitFlow from 4.2 to 2.7 in ed8de67, 3.6 in 98d1424 and 3.9 in f8c910d: its
plans follow what a step takes.

**Attention before the changes below** (Nsight Compute, clocks as they were). The kernel for prompts had 8 warps on an
SM, because a thread took 224 registers. In 67 % of its clocks a scheduler found no warp that could go on, and the
tensor cores waited. That was 31 % of the SM's instructions and 141 TFLOP/s, half of the rate expected below. The kernel
for decoding had one warp per block and three blocks on an SM, as many as shared memory held. With 8 requests of 4,096
tokens that was 768 blocks for 396 places, 1.94 waves, and 2.9 of the 4.2 TB/s; with 32 requests it reached 83 %.

**Attention since then.** A program of its own ran the launches of `rates` on an H200, with four forms of the kernels
in turn and twice (medians of 15 graphs). Nsight Compute's samples of every instruction named the reasons:

| what the samples showed | what changed | rate before it | with it |
|---|---|---|---|
| a fifth of a prompt's samples waited for its running sums from the L2 cache | they are in shared memory | a prompt of 4,096 tokens: 139 TFLOP/s | 166 |
| blocks ran head by head: the longest of the last head began late | all heads' longest tiles come first | that prompt: 166 TFLOP/s | 175 |
| | | 512 rows at 16k: 121 TFLOP/s | 149 |
| | | 8 decodes at 4k: 2.27 TB/s | 2.65 |
| a quarter of the samples of decoding waited for the table of blocks | a page's blocks are found while the page before it is computed | | see below |

Without any of them the rates were 143 and 117 TFLOP/s and 2.48 TB/s. The first form of the third change, part of all
other forms, waited for the table after all, because it added to what it had read. Since then the kernel adds where it
fetches, and takes the maxima and sums of a lane's two rows side by side. A block with heads of 128 leaves 3 of 32 parts
of its running sums in the L2 cache, so that it fits the 99 KiB of small cards. All of it in the rates of two runs
(bf16, heads of 128):

| | ed8de67 | f8c910d |
|---|---:|---:|
| a prompt of 4,096 tokens | 142 TFLOP/s | 181 |
| 512 rows at 16k | 115 TFLOP/s | 155 |
| 8 decodes at 1k | 2.07 TB/s | 1.90 |
| 8 decodes at 2k | 2.27 TB/s | 2.21 |
| 8 decodes at 4k | 2.52 TB/s | 2.81 |
| 8 decodes at 16k | 3.36 TB/s | 3.46 |
| 32 decodes at 4k | 3.50 TB/s | 3.64 |

Of the 42 configurations of `rates` in three number formats, 35 gain 2 to 29 %, and none loses more than 1.2 %. Eight
short contexts lose 8 %, 1.5 us a layer: they are 256 blocks of four pages each, and a block's time is that of its first
loads. Which part of the change costs them is open. A norm of f16 or f32 that loads its row before its first store
gained up to 4 %, one of bf16 at most 2 %.

**The simulator**, with the profile that the same run measured, is within 5 % of the step of 30 of 33 systems (before:
23): the six of the first row below, OrbitFlow (+5.1 to -4.4 %) and SuperInfer (-5.7 to -3.9 %) have come within it, and
OrbitFlowPool (-2.7 to -6.4 %) has left it. Both changes were calculated before and are measured now:

| | ed8de67 | f8c910d |
|---|---:|---:|
| `"copies": "batched"` (many blocks in one call of the driver): FlexGen, DeepSpeed, SloAware, OrbitFlowUniform, DynamicHeuristic, FlexGenPlus | +11 to +13 % | -1.8 to +2.4 % |
| `kv_proj` (tokens that need just K and V), and a defect of the machine ([fidelity.md](fidelity.md#the-simulator-against-this-machines-own-decoder)): Kvpr | +35 % | +6.0 % |

The others, and their reasons:

- OrbitFlowPool, -6 %: open. It moved 5 % more than planned in an earlier run.
- Confluence, -21 %: the means are 2.49 and 2.62 ms, 5 % apart, and its attainment is within 1.9 points. Its steps are
  of two kinds, with and without a move of KV, and the median lies between them: 1.44 ms simulated, 1.83 measured.

Attainment is within 3 points for 25 of 33. The SLO is 4.1 ms a token, near the steps of FlexGenWeights,
DynamicHeuristic, OrbitFlow, OrbitFlowRequestWise and Kvpr: FlexGenWeights' is 4.087 ms simulated and 4.091 measured,
which makes 44 points. OrbitFlowPool (9.6 points), AptServe (8.6) and FastServe (3.5) are open.

**Offloading is no gain in throughput here.** With long contexts in a third of the memory that they need, OrbitFlow
serves 0.16 of the tokens per second of vLLM's recompute, which runs a third of the requests at a time. This GPU reads
its memory 77 times as fast as the link, and 8 layers take 1.3 ms. Offloading is for a latency that waiting requests
would miss.
"""
# The claims about a GPU: the measure, the aim, and the result file's figure.
CLAIMS = [
    ("members of the thread block, against a host's computation", "all right", all_of("primitives")),
    ("kernels, against double precision, and rows that keep their bits", "all right", all_of("kernels")),
    ("memcheck, racecheck, initcheck, synccheck", "no error", all_of("sanitizers")),
    (
        "attention of decoding rows, from 8 requests of 4k tokens on, of a device copy's bandwidth",
        ">= 80 %",
        shares("rates", *DECODE),
    ),
    ("attention of prompts, of cuBLAS's rate", ">= 30 %", shares("rates", "attention, a prompt of 4k")),
    ("scattered blocks to the device, the best way, of one large pinned copy", ">= 90 %", best_copies("to the device")),
    ("scattered blocks to the host, the best way, of one large pinned copy", ">= 90 %", best_copies("to the host")),
    ("pinned copies both ways at once, of one way", ">= 170 %", shares("ceilings", "both ways")),
    (
        "norm, RoPE with the KV write, activation, on tensors several times the L2, of a device copy's bandwidth",
        ">= 80 %",
        shares("rates", "norm", "rope and store", "activation"),
    ),
    (
        "the same at decode sizes, inside of a graph",
        "stated",
        values("rates", "norm, decoding", "rope and store, decoding", "activation, decoding"),
    ),
    (
        "own tiles, of which rows keep their bits: one row, of a device copy's bandwidth",
        "stated",
        shares("rates", "product, 1 row"),
    ),
    ("own tiles at 4096 rows, of cuBLAS's rate", "stated", shares("rates", "product, 4096 rows")),
    *(
        (
            f"an iteration beside max(compute alone, transfers alone), where the link binds: {what}",
            "<= 1.05",
            values("shape", f"iteration beside max(compute, transfers), {what}"),
        )
        for what in OVERLAPS
    ),
    (
        "the simulator, profiled on the card: step time of each system",
        "within 5 %",
        farthest("step time", "%", 5),
    ),
    (
        "the simulator, profiled on the card: attainment of each system",
        "within 3 points",
        farthest("attainment", "points", 3),
    ),
    (
        "tokens per second beside transformers' offloaded cache, as little memory for KV",
        ">= 2x",
        times("ours, KV offloaded"),
    ),
    (
        "tokens per second beside transformers' default cache, everything fitting",
        ">= 1x",
        times("ours, everything fits"),
    ),
    (
        "tokens per second beside accelerate's hooks, all weights on the host",
        "stated",
        times("ours, weights streamed"),
    ),
    (
        "attention of decoding rows beside torch's",
        "stated",
        times("torch, attention, 8 decode at 4k", of_ours=False),
    ),
    ("attention of prompts beside torch's", "stated", times("torch, attention, a prompt of 4k", of_ours=False)),
    ("tokens over all systems in the invariant mode", "identical", values("identity", "tokens of all systems")),
    (
        "what the invariant mode costs",
        "stated",
        values("identity", "what invariant products cost, decoding", "what invariant products cost, prompts"),
    ),
    (
        "what launching every kernel costs an iteration whose layers would be graphs",
        "stated",
        values("identity", "what launching without graphs costs, decoding"),
    ),
    (
        "what an iteration loses whose small copies no kernel gathers",
        "stated",
        values("shape", "what copies without the gathering kernel cost, KV"),
    ),
    ("logits beside the CPU's, bf16", "<= 2e-2", values("identity", "logits beside the CPU")),
]


def newest():
    """The file of the latest run on any device, of those that were asked for all stages if any was; or None."""
    files = {file: load(file) for file in sorted(results.glob("*/*.json"))}
    return max(files, key=lambda file: (of_all_stages(files[file]), began(files[file])), default=None)


def of_all_stages(data):
    header = data.get("header") if isinstance(data, dict) else None
    stages = header.get("stages", []) if isinstance(header, dict) else []
    return not any(stage.get("reason") == NOT_ASKED for stage in stages if isinstance(stage, dict))


def began(data):
    """The time of the run's start, as text that sorts; empty if this is no result file, which check() reports."""
    header = data.get("header") if isinstance(data, dict) else None
    return str(header.get("began", "")) if isinstance(header, dict) else ""


def cell(value, unit=""):
    return "" if value is None else f"{value:.4g}{' ' + unit if unit else ''}"


def text():
    """The page, and its pictures by name."""
    file = newest()
    data = load(file) if file else None
    if data and (wrong := check(data)):
        raise ValueError(f"{file.relative_to(root)}: {wrong[0]}")
    rows = data["rows"] if data else []
    out = [
        "# On a GPU",
        "",
        "`bench/gpu/report.py` writes this page from the newest file of `bench/results` of a run that was asked for",
        "all stages. Figures that are calculated and not measured have a section of their own.",
        "",
    ]
    if data:
        header = data["header"]
        out += [
            f"Measured on {header['device']}: driver {header['driver']}, CUDA runtime {header['runtime']}, commit "
            f"{header['commit']}, programs {header['binaries']},",
            f"`{file.relative_to(root)}`.",
            "",
        ]
    else:
        out += [
            "No GPU has been available yet. Every CI run rehearses the run on the emulator: this tests it, but not speed.",
            "",
        ]
    out += ["| what | wanted | measured |", "|---|---|---|"]
    out += [f"| {what} | {wanted} | {measured(rows) or NOT_YET} |" for what, wanted, measured in CLAIMS]
    out += [*(SEEN.splitlines() if data else []), *CALCULATED.splitlines()]
    if data:
        out += ["", "## The stages", "", "| stage | how it ended | seconds |", "|---|---|---:|"]
        out += [
            f"| {stage['name']} | {': '.join(filter(None, [stage['status'], stage['reason']]))} | "
            f"{stage['seconds']:.1f} |"
            for stage in data["header"]["stages"]
        ]
        out += ["", "## The rows", ""]
        for stage in STAGES:
            of = [row for row in rows if row["stage"] == stage]
            if all(row["status"] == "skipped" for row in of):
                continue
            out += [
                f"### {stage}",
                "",
                "| row | of | value | min | max | share of its ceiling | error |",
                "|---|---|---:|---:|---:|---:|---:|",
            ]
            for row in of:
                if row["status"] == "skipped":
                    out.append(f"| {row['name']} | | {NOT_YET}: {row['reason']} | | | | |")
                    continue
                failed = "" if row["status"] == "passed" else f" FAILED: {row['reason']}"
                share = "" if row["share"] is None else f"{100 * row['share']:.0f} %"
                error = cell(row["refcheck"]["error"]) if row["refcheck"] else ""
                out.append(
                    f"| {row['name']} | {row['config']} | {cell(row['value'], row['unit'])}{failed} | "
                    f"{cell(row['min'])} | {cell(row['max'])} | "
                    f"{share} | {error} |"
                )
            out.append("")
    pictures = plots(rows)
    if pictures:
        out += ["", "## Pictures", ""]
        for name, shows, _ in pictures:
            out += [f"![{shows}](images/{name})", ""]
    out += ["", "[bench/gpu/README.md](../bench/gpu/README.md) explains how to run it and what the fields mean."]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)) + "\n", {images / name: drawn for name, _, drawn in pictures}


def add(path):
    data = load(path)
    if wrong := check(data):
        raise ValueError(f"{path}: {wrong[0]}")
    header = data["header"]
    if header["device"] == "emulated":
        raise ValueError(f"{path}: its device is emulated; expected a file of a GPU, for a rehearsal measures nothing")
    device = re.sub(r"[^a-z0-9]+", "-", header["device"].lower()).strip("-")
    folder = results / device
    folder.mkdir(parents=True, exist_ok=True)
    # A commit's + stays in the name, so that a run of changed sources replaces no other run, nor does a later run of
    # the same day.
    name = f"{began(data)[:10]}-{re.sub('[^0-9a-z+]', '', header['commit'])}"
    to = folder / f"{name}.json"
    if to.exists() and began(load(to)) != began(data):
        to = folder / f"{name}-{re.sub('[^0-9]', '', began(data)[11:])}.json"
    to.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    print(f"{to.relative_to(root)}")


def main(arguments):
    try:
        if arguments[:1] == ["--add"] and len(arguments) == 2:
            add(arguments[1])
        elif arguments not in ([], ["--check"]):
            print(__doc__, file=sys.stderr)
            return 2
        made, pictures = text()
        files = {page: made, **pictures}
        stale = set(images.glob("gpu-*.svg")) - set(files)
        if arguments == ["--check"]:
            wrong = [file for file, said in files.items() if not (file.exists() and file.read_text("utf-8") == said)]
            for file in sorted([*wrong, *stale]):
                what = "it is not what the results say; expected what bench/gpu/report.py writes"
                print(f"{file.relative_to(root)}: {what}", file=sys.stderr)
            return 1 if wrong or stale else 0
        for file, said in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(said, encoding="utf-8")
        for file in stale:
            file.unlink()
    except (Unreadable, OSError) as error:
        path = getattr(error, "filename", None) or (arguments[1] if len(arguments) == 2 else results)
        print(f"bench/gpu/report.py: {path}: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"bench/gpu/report.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
