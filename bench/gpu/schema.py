# SPDX-License-Identifier: Apache-2.0
"""The contents of a result file of bench/gpu/run: the fields of its header and rows, and each stage's rows."""
from workload import PEERS

HEADER = {  # name: type, meaning
    "device": (str, "the card's name, or 'emulated'"),
    "driver": (str, "the driver's version"),
    "runtime": (str, "the CUDA runtime that the programs were linked with"),
    "cuda": (str, "the version of nvcc on the machine that ran"),
    "commit": (str, "of the sources of the programs, with + where they were changed"),
    "began": (str, "when, of UTC, as 2026-05-31T23:59:59Z"),
    "binaries": (str, "carried, built, or emulated"),
    "budget_s": ((int, float), "seconds that the whole run had"),
    "stages": (list, "one object each: name, status (done, cut, failed, skipped), seconds, limit_s, reason"),
}
NUMBER = (int, float, type(None))
ROW = {
    "stage": (str, "one of the stages"),
    "name": (str, "what was measured"),
    "config": (str, "of what size and kind"),
    "n": (int, "how many cases a result was compared in, or how many values there are: at least 1 where it passed"),
    "value": (NUMBER, "the median, in the row's unit"),
    "unit": (str, ""),
    "against": (str, "the row that is the ceiling, as stage/name; empty where there is none"),
    "ceiling": (NUMBER, "that row's value"),
    "share": (NUMBER, "value / ceiling"),
    "min": (NUMBER, ""),
    "median": (NUMBER, ""),
    "max": (NUMBER, ""),
    "reps": (int, "repetitions that min, median and max are of"),
    "refcheck": (
        (dict, type(None)),
        "error, limit and cases of the comparison with the host; null where there is nothing to compare",
    ),
    "status": (str, "passed, failed or skipped"),
    "seconds": (NUMBER, "that the row took, all included"),
    "repro": (str, "the command that measures it again, beside the programs"),
    "reason": (str, "why it failed or was skipped; empty where it passed"),
}
STAGE = {"name": str, "status": str, "seconds": (int, float), "limit_s": (int, float), "reason": str}
# Stages whose passing rows need a comparison, and stages whose bandwidths need a ceiling.
REFCHECKED = (
    "primitives",
    "kernels",
    "sanitizers",
    "ceilings",
    "host",
    "rates",
    "copies",
    "identity",
    "shape",
    "peers",
)
WITH_CEILING = ("rates", "copies")
MOST_ERROR = 0.05  # the largest limit of a relative error, or of wrong values: a larger one would accept anything
STAGE_STATUS = ("done", "cut", "failed", "skipped")

KERNEL_TESTS = [
    "activation",
    "attention_bf16",
    "attention_f16",
    "attention_f32",
    "copy_segments",
    "embed",
    "experts",
    "grouped_product",
    "norm",
    "rope_and_store",
    "sample",
    "tile_product",
    "decoder/runner",
    "decoder/runner_f32",
    "decoder/runner_f16",
    "decoder/runner_bf16",
    "decoder/graphs",
]
COPY_WAYS = ["a copy each", "cudaMemcpyBatchAsync", "as the machine does", "CopySegments"]
GEMMS = [
    "cublas, 4096 x 4096 x 4096",
    "cublas, 8192 x 8192 x 8192",
    "cublas, 4096 x 28672 x 4096",
    "cublas, 16 x 4096 x 4096",
]

RATES = [
    "norm",
    "norm, decoding",
    "rope and store",
    "rope and store, decoding",
    "activation",
    "activation, decoding",
    "embed",
    "route",
    "place",
    "gather rows",
    "scatter rows",
    "sample",
    "sample, greedy",
    "attention, 8 decode at 4k",
    "attention, 32 decode at 4k",
    "attention, 8 decode at 16k",
    "attention, a prompt of 4k",
    "attention, a chunk of 512 at 16k",
    "attention, 8 decode at 1k",
    "attention, 8 decode at 2k",
    "product, 1 row",
    "product, 16 rows",
    "product, 64 rows",
    "product, 256 rows",
    "product, 4096 rows",
    "product, 16 rows of an MLP",
    "grouped product, 8 rows each",
    "grouped product, 1024 rows each",
]
# Each kernel in each of its other configurations: how many rows.
CONFIGURATIONS = {
    "norm, each configuration": 6,
    "rope and store, each configuration": 21,
    "activation, each configuration": 12,
    "attention, each configuration, decoding": 21,
    "attention, each configuration, prompts": 21,
    "product, each configuration": 9,
    "grouped product, each configuration": 9,
}

# Systems of sluice-run --list that it refuses on a GPU.
ON_THE_CPU = ["Neo"]
# Its other systems but AllResident, the most informative first, since a run may be cut.
SYSTEMS = [
    "OrbitFlow",
    "VllmSwap",
    "FlexGen",
    "DeepSpeedInference",
    "SuperInfer",
    "SelectN",
    "HCache",
    "Kvpr",
    "Ellm",
    "Pie",
    "Mirage",
    "VllmRecompute",
    "OrbitFlowPool",
    "Confluence",
    "SloAware",
    "DynamicHeuristic",
    "FlexGenWeights",
    "DeepSpeedWeights",
    "FlexGenPlus",
    "FutureMemory",
    "LengthRanked",
    "SjfOracle",
    "WaitingFirst",
    "FastServe",
    "Scorpio",
    "VllmSwapSized",
    "VllmRecomputeSized",
    "OrbitFlowRequestWise",
    "OrbitFlowUniform",
    "MirageOneSlot",
    "MirageNoReversion",
    "OneAtATime",
]
# Systems that the oldest files of bench/results lack: a file may lack their rows.
LATER = ["AptServe", "VllmPriority", "VllmPriorityPreempts", "VllmPrefixCaching"]
# Systems with tiers, which sluice-run does not have on a GPU: there they are VllmPrefixCaching or OrbitFlowPool.
WITH_TIERS = [
    "VllmOffload",
    "Lmcache",
    "HiCache",
    "HiCacheBack",
    "HiCacheIfFaster",
    "HiCacheWithinSlos",
    "HiCacheHints",
    "Kvbm",
    "CachedAttention",
    "AdaptiveOffload",
    "Continuum",
    "InferCept",
    "KvFlow",
    "OrbitFlowCached",
]
NOT_ASKED = "it was not asked for"  # why a stage was skipped
OVERLAPS = ["KV", "weights"]  # the data that crosses the link
HOST_BATCHES = ["8 x 1k", "32 x 4k"]  # requests and their tokens
OFFLOADS = "OrbitFlow beside no offload, long contexts"
# Rows that must name a certain row in `against`.
AGAINST = {("peers", name): asked.against for name, asked in PEERS.items() if asked.against}

# Stages in the order in which they run, the most valuable first, with their rows and how often each must be there:
# passed, failed or skipped, since a run may be cut anywhere and its file must still list what is missing.
CLOCKS_DURING = ["ceilings", "rates", "copies", "shape", "peers"]  # when clocks and power are read
STAGES = {
    "environment": {
        **{name: 1 for name in ["multiprocessors", "cores", "host memory", "device memory", "state"]},
        **{f"copies gathered below, {where}": 1 for where in ("to the device", "to the host")},
        **{f"clocks during {stage}": 1 for stage in CLOCKS_DURING},
    },
    "build": {name: 1 for name in ["programs", "sluice-run", "sluice-profile", "sluice-compare"]},
    "primitives": {
        name: 1
        for name in [
            "thread, lane, warp, block_x, block_y, blocks_x, blocks_y",
            "sync",
            "sync_warp",
            "shuffle",
            "shuffle_xor",
            "shuffle_up",
            "ballot",
            "any",
            "atomic_max",
            "inclusive_scan",
            "load_packet, store_packet, load_written_packet",
            "copy_async, commit, wait",
            "load_matrices",
            "load_matrices_transposed",
            "mma, bf16",
            "mma, f16",
            "barrier_init, barrier_expect, barrier_wait, bulk_load, bulk_store, bulk_wait, fence_async",
            "atomic_add",
            "atomic_add of 64 bits",
            "fence",
            "fused, times, exp2_fast, larger",
            "widen, narrow",
        ]
    },
    "kernels": {name: 1 for name in KERNEL_TESTS},
    "sanitizers": {name: 1 for name in ["memcheck", "racecheck", "initcheck", "synccheck"]},
    "ceilings": {
        **{name: 1 for name in ["device copy", "to the device", "to the host", "both ways"]},
        **{name: 1 for name in GEMMS},
    },
    "host": {f"host time per step, {batch}": 1 for batch in HOST_BATCHES},
    "rates": {**{name: 1 for name in RATES}, **CONFIGURATIONS},
    "copies": {f"{way}, {where}": 5 for way in COPY_WAYS for where in ("to the device", "to the host")},
    "identity": {
        name: 1
        for name in [
            "tokens of all systems",
            "logits beside the CPU",
            "what invariant products cost, decoding",
            "what invariant products cost, prompts",
            "what launching without graphs costs, decoding",
        ]
    },
    "shape": {
        **{f"iteration beside max(compute, transfers), {what}": 1 for what in OVERLAPS},
        "what copies without the gathering kernel cost, KV": 1,
        OFFLOADS: 1,
        "profile": 1,
        **{f"simulated {what}, {system}": 1 for system in SYSTEMS for what in ("step time", "attainment")},
    },
    "peers": {name: 1 for name in PEERS},
}
# The first three minutes, which can be run alone: what every later measurement stands on.
FIRST = ["environment", "build", "primitives", "kernels", "ceilings", "host", "rates", "copies"]
FIRST_S = 180
