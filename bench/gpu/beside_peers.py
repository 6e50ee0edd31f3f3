# SPDX-License-Identifier: Apache-2.0
"""The stage peers: tokens per second of this project and of others, on one device, with the same shape, prompts and KV
memory. Our row names their row in `against`, so its share is the speedup."""
import sys
import tempfile
import time
from pathlib import Path

from rows import StageFailed, StageSkipped, generation, row, skipped
from schema import PEERS
from served import Served, ids, missing, repro
from workload import kv_bytes, prompts

here = Path(__file__).resolve().parent
STAGE = "peers"
ROUNDS = 4  # the first warms up
SYSTEM_OF = {
    "ours, everything fits": "AllResident",
    "ours, KV offloaded": "DeepSpeedInference",
    "ours, weights streamed": "DeepSpeedWeights",
}


def peers(run):
    served = Served(run)
    for name, asked in PEERS.items():
        if name not in SYSTEM_OF:
            continue
        try:
            served.needs("sluice-run")
            run.add(ours(served, name, asked))
        except StageSkipped as why:
            run.add(skipped(STAGE, name, str(why)))
        except StageFailed as why:  # a program that cannot start, too; the peers are still measured
            run.add(row(STAGE, name, "", "failed", n=0, reason=str(why)))
    flags = ["--tiny"] if served.emulated else []
    limits = {"row_limit": served.call_s, "first_limit": served.first_call_s}
    run.program([sys.executable, here / "peers.py"], *flags, **limits)


def ours(served, name, asked):
    """Rounds of as many prompts as run at once. All have the same length, so a round ends before the next begins."""
    begin = time.monotonic()
    asked = asked.rehearsed() if served.emulated else asked
    system = SYSTEM_OF[name]
    served.wants(system)
    model = served.shape(asked.layers)
    layers = 2 if system == "DeepSpeedInference" else None  # as in theirs: the layer that computes, and the next
    memory = kv_bytes(model, asked.requests, asked.prompt + asked.generated, layers)
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--system", system, *served.model("sluice-run", folder, asked.layers)]
        flags += [*served.on_device("sluice-run"), *served.products("fast")]
        flags += ["--kv-memory", memory, *ids(prompts(model, ROUNDS * asked.requests, asked.prompt))]
        flags += ["--max-tokens", asked.generated, "--ignore-end", "--batch", asked.requests]
        flags += ["--max-batch-tokens", asked.requests * asked.prompt]
        told = served.told(*flags)
    owed = missing(told, ROUNDS * asked.requests, asked.generated)
    rates = [] if owed else rates_of(told["requests"], asked)
    return generation(
        STAGE,
        name,
        f"{asked.text(model)}, {system}, {memory / 2**20:.4g} MiB for KV",
        owed=owed,
        tokens=ROUNDS * asked.requests * asked.generated,
        rates=rates,
        begin=begin,
        repro=repro(flags, folder),
        against=asked.against,
    )


def rates_of(requests, asked):
    """Tokens per second of each round but the first, from one round's last token to the next one's."""
    ends = sorted(one["e2e_s"] for one in requests)[asked.requests - 1 :: asked.requests]
    return [asked.requests * asked.generated / (end - before) for before, end in zip(ends, ends[1:])]
