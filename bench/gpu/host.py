# SPDX-License-Identifier: Apache-2.0
"""The stage host: how long a decoding step of a real run takes outside of its layers, which the device computes. That is
the engine, the machine, launches, tables, the head and sampling: what a step costs apart from its layers."""
import tempfile
import time
from pathlib import Path

from rows import StageSkipped, compared, row, skipped
from schema import HOST_BATCHES
from served import Refused, Served, ids, missing, outside_layers, repro
from workload import kv_bytes, prompts

STAGE = "host"
LAYERS, VOCABULARY, GENERATED = 4, 32768, 24  # few, so that the model is drawn in seconds


def host(run):
    served = Served(run)
    served.needs("sluice-run")
    for batch in HOST_BATCHES:
        name = f"host time per step, {batch}"
        requests, tokens = batch.replace("k", "").split(" x ")
        try:
            run.add(measured(served, name, int(requests), 1024 * int(tokens)))
        except StageSkipped as why:
            run.add(skipped(STAGE, name, str(why)))
        except Refused as why:
            run.add(row(STAGE, name, "", "failed", n=0, reason=str(why)))


def measured(served, name, requests, prompt):
    begin = time.monotonic()
    if served.emulated:
        requests, prompt = 2, 16
    model = served.shape(LAYERS, VOCABULARY)
    with tempfile.TemporaryDirectory() as folder:
        timeline = Path(folder) / "timeline.json"
        flags = ["--system", "AllResident", *served.model("sluice-run", folder, LAYERS, VOCABULARY)]
        flags += [*served.on_device("sluice-run"), *served.products("fast")]
        flags += ["--kv-memory", kv_bytes(model, requests, prompt + GENERATED)]
        flags += [*ids(prompts(model, requests, prompt)), "--max-tokens", GENERATED, "--ignore-end"]
        flags += ["--batch", requests, "--max-batch-tokens", 8192 if prompt * requests > 8192 else prompt * requests]
        told = served.told(*flags, "--timeline", timeline)
        if owed := missing(told, requests, GENERATED):
            raise Refused(f"it owes {owed} tokens")
        outside = outside_layers(timeline, requests)
    if not outside:
        raise Refused("its timeline has no decoding iteration with layers")
    return row(
        STAGE,
        name,
        f"{requests} x {prompt} tokens on {model['_name_or_path']}, {model['num_hidden_layers']} layers and "
        f"{model['vocab_size']} tokens, all resident: a decoding step outside of its layers",
        samples=[1e6 * one for one in outside],
        unit="us",
        n=requests * GENERATED,
        repro=repro(flags, folder),
        seconds=round(time.monotonic() - begin, 3),
        refcheck=compared(0, 0, requests * GENERATED),
    )
