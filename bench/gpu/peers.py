#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the work of beside_peers.py with other projects, a line of JSON for each row: transformers with its default, its
offloaded and its compiled static cache, accelerate's weight hooks, torch's attention as it chooses and by cuDNN, and
FlashInfer's. Missing libraries are skipped and named. bench/gpu/run calls it.

usage: peers.py [--tiny] [--after ROWS]"""
import argparse
import gc
import json
import os
import sys
import time

sys.dont_write_bytecode = True
from rows import compared, generation, row, skipped  # noqa: E402
from workload import CUDNN, FLASHINFER, LLAMA3_8B, PEERS, TINY, of_layers, prompts  # noqa: E402

STAGE = "peers"
REPETITIONS = 3  # behind one that warms up
CALLS = 16  # of attention, between two events


class Missing(Exception):
    """A library is not installed, or has an unsupported version."""


def module(name):
    try:
        return __import__(name)
    except ImportError as error:
        raise Missing(f"there is no {name} here: {error}") from error


class Peers:
    def __init__(self, tiny):
        self.tiny = tiny
        self.model = None
        self.layers = 0

    def device(self):
        torch = module("torch")
        if self.tiny:
            return torch.device("cpu")
        if not torch.cuda.is_available():
            raise Missing("torch sees no GPU")
        return torch.device("cuda", 0)

    def synchronize(self):
        if not self.tiny:
            module("torch").cuda.synchronize()

    def config(self, layers):
        return of_layers(TINY if self.tiny else LLAMA3_8B, layers)

    def of_layers(self, layers):
        """The model on the device, kept while its size stays the same."""
        torch, transformers = module("torch"), module("transformers")
        if self.model is not None and self.layers == layers:
            return self.model
        self.model = None
        gc.collect()
        fields = {name: value for name, value in self.config(layers).items() if name[0] != "_"}
        dtype = getattr(torch, fields.pop("torch_dtype"))
        # The rotation's base has several names, depending on the version; its value does not change the cost.
        for name in ("architectures", "model_type", "rope_theta"):
            fields.pop(name)
        config = transformers.LlamaConfig(**fields, bos_token_id=None, eos_token_id=None, pad_token_id=None)
        torch.manual_seed(1)
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)  # otherwise weights would be drawn as f32 first, in twice the memory
        try:
            with torch.device(self.device()):
                model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
        finally:
            torch.set_default_dtype(before)
        wrong = {one.dtype for one in model.parameters()} - {dtype}
        if wrong:
            raise Missing(f"transformers {transformers.__version__} made weights of {wrong.pop()}; expected {dtype}")
        self.model, self.layers = model.to(self.device()).eval(), layers
        return self.model

    # --- rows

    def generation(self, name, asked, make, **flags):
        """Tokens per second over prompts and decoding, counted as ours."""
        begin = time.monotonic()
        asked = asked.rehearsed() if self.tiny else asked
        torch = module("torch")
        model = make(asked.layers)
        shape = self.config(asked.layers)
        rounds = prompts(shape, (1 + REPETITIONS) * asked.requests, asked.prompt)
        owed, rates = 0, []
        for i in range(1 + REPETITIONS):
            mine = rounds[i * asked.requests : (i + 1) * asked.requests]
            ids = torch.tensor(mine, device=self.device())
            self.synchronize()
            start = time.monotonic()
            with torch.inference_mode():
                out = model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=asked.generated,
                    min_new_tokens=asked.generated,
                    do_sample=False,
                    pad_token_id=0,
                    **flags,
                )
            self.synchronize()
            took = time.monotonic() - start
            count = int((out.shape[1] - asked.prompt) * out.shape[0])
            owed += abs(asked.requests * asked.generated - count)
            if i > 0:
                rates.append(count / took)
        versions = f"torch {torch.__version__}, transformers {module('transformers').__version__}"
        return generation(
            STAGE,
            name,
            f"{asked.text(shape)}, {versions}",
            owed=owed,
            tokens=(1 + REPETITIONS) * asked.requests * asked.generated,
            rates=rates,
            begin=begin,
            repro="bench/gpu/peers.py",
        )

    def default_cache(self, name, asked):
        return self.generation(name, asked, self.of_layers)

    def offloaded_cache(self, name, asked):
        if self.device().type == "cpu":
            raise Missing("its streams are a GPU's")
        return self.generation(name, asked, self.of_layers, cache_implementation="offloaded")

    def compiled_cache(self, name, asked):
        """The fastest that transformers offers: a static cache, with the model compiled. The first round compiles."""
        if self.device().type == "cpu":
            raise Missing("compiling takes a GPU")
        return self.generation(name, asked, self.of_layers, cache_implementation="static")

    def weight_hooks(self, name, asked):
        accelerate = module("accelerate")

        def hooked(layers):
            model = self.of_layers(layers).to("cpu")
            self.model = None  # later rows need a model without hooks
            return accelerate.cpu_offload(model, execution_device=self.device())

        return self.generation(name, asked, hooked)

    def attention(self, name, asked):
        """torch's attention, by the kernel that it chooses."""
        return self.attended(name, asked, self.torch_attends)

    def cudnn_attention(self, name, asked):
        """The same by cuDNN's kernel and no other."""
        if self.device().type == "cpu":
            raise Missing("cuDNN takes a GPU")
        attention = getattr(module("torch").nn, "attention", None)
        backend = getattr(getattr(attention, "SDPBackend", None), "CUDNN_ATTENTION", None)
        if backend is None:
            raise Missing(f"torch {module('torch').__version__} cannot choose cuDNN")
        with attention.sdpa_kernel(backend):
            return self.attended(name, asked, self.torch_attends)

    def flashinfer(self, name, asked):
        """FlashInfer's kernels for one sequence, called for each: K and V as [tokens, heads, size]."""
        flashinfer = module("flashinfer")
        if self.device().type == "cpu":
            raise Missing("it takes a GPU")

        def attends(q, k, v, causal):
            out = []
            for query, key, value in zip(q, k, v):
                key, value = key.transpose(0, 1), value.transpose(0, 1)
                if causal:
                    one = flashinfer.single_prefill_with_kv_cache(query.transpose(0, 1), key, value, causal=True)
                    out.append(one.transpose(0, 1))
                else:
                    out.append(flashinfer.single_decode_with_kv_cache(query[:, 0], key, value)[:, None])
            return out

        return self.attended(name, asked, attends)

    def torch_attends(self, q, k, v, causal):
        torch = module("torch")
        call = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
        if call is None:
            raise Missing(f"torch {torch.__version__} has no scaled_dot_product_attention")
        return call(q, k, v, is_causal=causal, enable_gqa=True)

    def attended(self, name, asked, attends):
        """One layer of the shape: bytes of K and V per second if rows decode, else operations per second."""
        begin = time.monotonic()
        torch = module("torch")
        shape, device = self.config(1), self.device()
        tokens = asked.prompt + asked.generated
        if self.tiny:
            tokens = min(tokens, 64)
        decodes = asked.generated > 0
        rows = 1 if decodes else tokens
        heads, kv_heads, dim = (shape[one] for one in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        dtype = getattr(torch, shape["torch_dtype"])
        draw = lambda *size: torch.randn(*size, device=device, dtype=dtype)
        # More K and V than any second-level cache holds.
        sets = [
            (
                draw(asked.requests, heads, rows, dim),
                draw(asked.requests, kv_heads, tokens, dim),
                draw(asked.requests, kv_heads, tokens, dim),
            )
            for _ in range(1 if self.tiny or not decodes else 4)
        ]
        causal = not decodes
        attend = lambda q, k, v: attends(q, k, v, causal)
        error, cases = self.off(attend, *sets[0], causal)
        samples = []
        for _ in range(3 if self.tiny else 20):
            samples.append(self.seconds(lambda: [attend(*sets[i % len(sets)]) for i in range(CALLS)]) / CALLS)
        if decodes:
            amount, unit = 2 * asked.requests * tokens * kv_heads * dim * sets[0][1].element_size() * 1e-9, "GB/s"
        else:
            amount, unit = 4 * asked.requests * heads * dim * tokens * (tokens + 1) / 2 * 1e-12, "TFLOP/s"
        limit = 2e-6 if dtype is torch.float32 else 1e-2
        passed = error <= limit
        return row(
            STAGE,
            name,
            f"{asked.requests} x {rows} rows of {tokens} tokens, {heads} heads on {kv_heads} of {dim}, "
            f"{shape['torch_dtype']}, torch {torch.__version__}",
            "passed" if passed else "failed",
            samples=[amount / one for one in samples],
            unit=unit,
            n=cases,
            reason=f"off by {error:.3g}, at most {limit:g} is right",
            refcheck=compared(error, limit, cases),
            repro="bench/gpu/peers.py",
            seconds=round(time.monotonic() - begin, 3),
            against=asked.against,
        )

    def seconds(self, work):
        """Time between two events; on the processor, by its clock."""
        torch = module("torch")
        if self.tiny:
            begin = time.monotonic()
            work()
            return time.monotonic() - begin
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        work()  # warms up, and delays the first event until the host has launched work
        first.record()
        work()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) * 1e-3

    def off(self, attend, query, key, value, causal):
        """Compares the last row of the first and the last head with softmax in double."""
        got = attend(query, key, value)
        group, dim = query.shape[1] // key.shape[1], query.shape[3]
        off = exact_all = 0.0
        for head in (0, query.shape[1] - 1):
            q, k, v = (one.double() for one in (query[0, head, -1], key[0, head // group], value[0, head // group]))
            exact = (q @ k.T / dim**0.5).softmax(-1) @ v
            off += float(((got[0, head, -1].double() - exact) ** 2).sum())
            exact_all += float((exact**2).sum())
        return (off / exact_all) ** 0.5, 2 * dim


def own_output():
    """Reserves standard output for rows: output of libraries, even from C++ or without a newline, goes to standard
    error."""
    rows = os.fdopen(os.dup(1), "w", encoding="utf-8")
    sys.stdout.flush()
    os.dup2(2, 1)
    return rows


def main():
    options = argparse.ArgumentParser(description="Measures this project's peers.")
    options.add_argument("--tiny", action="store_true", help="rehearse on the processor, with small sizes")
    options.add_argument("--after", type=int, default=0, help="continue after so many rows")
    options = options.parse_args()
    out = own_output()
    peers = Peers(options.tiny)
    rows = {
        "transformers, default cache": peers.default_cache,
        "transformers, offloaded cache": peers.offloaded_cache,
        "torch, attention, 8 decode at 4k": peers.attention,
        "torch, attention, a prompt of 4k": peers.attention,
        f"{CUDNN}, 8 decode at 4k": peers.cudnn_attention,
        f"{CUDNN}, a prompt of 4k": peers.cudnn_attention,
        f"{FLASHINFER}, 8 decode at 4k": peers.flashinfer,
        f"{FLASHINFER}, a prompt of 4k": peers.flashinfer,
        "transformers, compiled static cache": peers.compiled_cache,
        "accelerate, weight hooks": peers.weight_hooks,
    }
    failed = False
    for i, (name, measure) in enumerate(rows.items()):
        if i < options.after:
            continue
        begins = {"stage": STAGE, "name": name, "config": "", "repro": "bench/gpu/peers.py"}
        print(json.dumps({"begins": begins}), file=out, flush=True)
        try:
            one = measure(name, PEERS[name])
        except Missing as why:
            one = skipped(STAGE, name, str(why))
        except Exception as error:  # any failure of a peer; the other rows may still be measured
            said = (str(error).strip().splitlines() or [""])[0]
            one = row(STAGE, name, "", "failed", n=0, reason=f"{type(error).__name__}: {said}")
        failed = failed or one["status"] == "failed"
        print(json.dumps(one), file=out, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
