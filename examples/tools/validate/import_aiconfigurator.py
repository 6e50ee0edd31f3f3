#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a bundle of kernel times (docs/fidelity.md) from the tables of ai-dynamo/aiconfigurator (Apache-2.0).

The tables are CSV files that parquet_to_csv.mjs makes of gemm_perf, context_attention_perf, generation_attention_perf
and custom_allreduce_perf. The bundle's files are a function of the tables alone. What has no table (norms, activations,
rotary embedding, sampling) is computed from the bytes that it moves, at the memory rate and with the constant that the
system's file states. meta.yaml lists where everything comes from.

With --base the bundle is a copy of another one whose --kernels alone are replaced.
"""
import argparse
import bisect
import csv
import json
import math
import os
import re
import shutil
import sys

ELEMENT = 2  # bytes of bfloat16
CHUNKS = [16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192]
PASTS = [0, 256, 512, 1024, 2048, 4096, 8192]


def fail(text):
    print("import_aiconfigurator: " + text, file=sys.stderr)
    sys.exit(2)


def rows_of(path, **wanted):
    """The rows whose columns have the wanted values. A table without window_size attends to everything (0)."""
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        for name in wanted:
            if name not in (reader.fieldnames or []) and name != "window_size":
                fail(f"{path}:1: the header has no column '{name}'; expected a table of aiconfigurator")
        for row in reader:
            if all(row.get(name, "0") == str(value) for name, value in wanted.items()):
                yield row


def microseconds(row):
    value = float(row["latency"]) * 1000
    if not (math.isfinite(value) and value > 0):
        fail(f"a latency is '{row['latency']}'; expected milliseconds above 0")
    return value


class Line:
    """Measured times over a coordinate: linear between two points and beyond the last. Both points of a tile's edge, m
    and m + 1, are kept: a resampled line is off by 5 % there."""

    def __init__(self, points):
        self.at_ = sorted(points)
        self.points = points

    def __call__(self, at):
        if at <= self.at_[0] or len(self.at_) == 1:
            return self.points[self.at_[0]]
        high = min(bisect.bisect_left(self.at_, at), len(self.at_) - 1)
        a, b = self.at_[high - 1], self.at_[high]
        return self.points[a] + (self.points[b] - self.points[a]) * (at - a) / (b - a)


class Gemms:
    def __init__(self, path, flops):
        self.lines, self.refused, count = {}, 0, 0
        for row in rows_of(path, gemm_dtype="bfloat16"):
            m, n, k = int(row["m"]), int(row["n"]), int(row["k"])
            count += 1
            if 2.0 * m * n * k / (microseconds(row) * 1e-6) > flops:
                self.refused += 1  # faster than the device can be
                continue
            self.lines.setdefault((n, k), {})[m] = microseconds(row)
        if not self.lines:
            fail(f"{path}: no row is of bfloat16; expected measured products")
        if self.refused * 100 > count:
            fail(f"{path}: {self.refused} of {count} rows are faster than {flops / 1e12:.0f} TFLOP/s; "
                 "expected times within the device's roofline")
        self.ns = sorted({n for n, _ in self.lines})
        self.ks = sorted({k for _, k in self.lines})

    def line(self, n, k):
        """Times by m; n or k between two measured ones, or n beyond the last, linearly."""
        if (n, k) in self.lines:
            return dict(self.lines[n, k])
        def mix(axis, at, key):
            high = min(bisect.bisect_left(axis, at), len(axis) - 1)
            a, b = axis[high - 1], axis[high]
            low, top = self.lines[key(a)], self.lines[key(b)]
            share = (at - a) / (b - a)
            return {m: low[m] + (top[m] - low[m]) * share for m in low if m in top}
        if k in self.ks:
            return mix([a for a in self.ns if (a, k) in self.lines], n, lambda a: (a, k))
        if n in self.ns:
            return mix([a for a in self.ks if (n, a) in self.lines], k, lambda a: (n, a))
        fail(f"neither {n} columns nor {k} rows of a product are measured")


def yaml_number(path, name):
    with open(path) as file:
        found = re.search(rf"^\s*{name}:\s*([0-9.eE+-]+)", file.read(), re.M)
    if not found:
        fail(f"{path}: there is no {name}; expected a system of aiconfigurator")
    return float(found.group(1))


def write(folder, name, header, rows):
    with open(os.path.join(folder, name), "w") as file:
        file.write(header + "\n")
        for row in rows:
            file.write(",".join(str(cell) for cell in row[:-1]) + f",{row[-1]:.4f}\n")


def shapes(config, devices):
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    heads, kv = config["num_attention_heads"] // devices, max(1, config["num_key_value_heads"] // devices)
    hidden, mlp = config["hidden_size"], config["intermediate_size"] // devices
    return {"heads": heads, "kv": kv, "head": head, "hidden": hidden, "mlp": mlp,
            "vocabulary": -(-config["vocab_size"] // devices),
            "gemm": {"qkv_proj": ((heads + 2 * kv) * head, hidden), "o_proj": (hidden, heads * head),
                     "gate_up_proj": (2 * mlp, hidden), "down_proj": (hidden, mlp)}}


def dense_rows(gemms, shape, has_qk_norm, moved):
    hidden, mlp, heads, kv, head = (shape[x] for x in ("hidden", "mlp", "heads", "kv", "head"))
    elements = {"embedding": 2 * hidden, "layernorm": 4 * hidden, "rotary_emb": 2 * (heads + kv) * head,
                "act_fn": 3 * mlp, "final_layernorm": 4 * hidden}
    if has_qk_norm:
        elements["qk_norm"] = (heads + kv) * head  # of one of two kernels: half of reading and writing both
    sizes = [1, 16, 256, 16384]
    for kernel in sorted([*elements, *shape["gemm"]]):
        if kernel in elements:
            for m in sizes:
                yield kernel, m, moved(elements[kernel] * ELEMENT * m)
        else:
            for m, time in sorted(gemms.line(*shape["gemm"][kernel]).items()):
                yield kernel, m, time


def attention_rows(context, generation, shape):
    of = {"num_heads": shape["heads"], "num_key_value_heads": shape["kv"], "head_dim": shape["head"],
          "attn_dtype": "bfloat16", "kv_cache_dtype": "bfloat16", "window_size": 0}
    alone = Line({int(r["isl"]): microseconds(r) for r in rows_of(context, batch_size=1, **of)})
    decodes = {}
    for row in rows_of(generation, **of):
        decodes.setdefault(int(row["batch_size"]), {})[int(row["isl"]) + int(row["step"]) - 1] = microseconds(row)
    if not alone.at_ or not decodes:
        fail(f"no attention of {shape['heads']} heads and {shape['kv']} KV heads of {shape['head']} is measured")
    for count in sorted(decodes):
        for tokens in sorted(decodes[count]):
            yield 0, 0, count, tokens, decodes[count][tokens]
    floor = alone(alone.at_[0])
    for chunk in CHUNKS:
        for past in PASTS:
            # A chunk behind `past` tokens: the whole prompt less its beginning, each beyond an empty kernel.
            time = alone(chunk) if past == 0 else max(alone(chunk), alone(chunk + past) - alone(past) + floor)
            yield chunk, past, 0, 0, time
            for count in sorted(decodes):
                for tokens in sorted(decodes[count]):
                    if tokens >= 15:
                        yield chunk, past, count, tokens, time + max(0.0, decodes[count][tokens] - floor)


def all_reduce_rows(path, devices):
    # message_size counts elements of 2 bytes (collect_all_reduce.py).
    kinds = {}
    for row in rows_of(path, allreduce_dtype="bfloat16", num_gpus=devices):
        if row["kernel_source"].endswith("_graph"):
            kinds[int(row["message_size"]) * ELEMENT] = microseconds(row)
    if not kinds:
        fail(f"{path}: no all-reduce of {devices} devices is measured in a graph")
    return sorted(kinds.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name in ("gemm", "system", "config", "out"):
        parser.add_argument("--" + name, required=True)
    for name in ("context", "generation", "all-reduce", "base"):
        parser.add_argument("--" + name)
    parser.add_argument("--kernels", default="", help="with --base: replace these, comma separated")
    parser.add_argument("--devices", type=int, default=1, help="tensor-parallel devices that share the model")
    parser.add_argument("--gpu", default="", help="its driver's name, for meta.yaml")
    args = parser.parse_args()
    with open(args.config) as file:
        config = json.load(file)
    shape = shapes(config, args.devices)
    gemms = Gemms(args.gemm, yaml_number(args.system, "bfloat16_tc_flops"))
    part = os.path.join(args.out, f"tp{args.devices}")
    tables = [p for p in (args.gemm, args.context, args.generation, args.all_reduce) if p]
    lines = [f"gpu: {args.gpu}" if args.gpu else "", "source: ai-dynamo/aiconfigurator, Apache-2.0",
             "tables: " + ", ".join(os.path.basename(p) for p in tables),
             f"rows_beyond_roofline: {gemms.refused}"]
    os.makedirs(part, exist_ok=True)
    if args.base:
        base = os.path.join(args.base, f"tp{args.devices}")
        if not os.path.isdir(base):
            base = args.base
        for name in os.listdir(base):
            if os.path.isfile(os.path.join(base, name)):
                shutil.copyfile(os.path.join(base, name), os.path.join(part, name))
        replaced = [kernel for kernel in args.kernels.split(",") if kernel]
        for kernel in replaced:
            if kernel not in shape["gemm"]:
                fail(f"--kernels: it is '{kernel}'; expected some of {', '.join(shape['gemm'])}")
        with open(os.path.join(base, "dense.csv"), newline="") as file:
            kept = [row for row in csv.reader(file)][1:]
        rows = [(r[0], int(r[1]), float(r[2])) for r in kept if r[0] not in replaced]
        for kernel in replaced:
            rows += [(kernel, m, time) for m, time in sorted(gemms.line(*shape["gemm"][kernel]).items())]
        write(part, "dense.csv", "layer,tokens,time_us", rows)
        if os.path.exists(os.path.join(args.base, "meta.yaml")):
            with open(os.path.join(args.base, "meta.yaml")) as file:
                lines += [line for line in file.read().splitlines() if line.startswith("gpu: ") and not args.gpu]
        lines.append("replaced: " + ", ".join(replaced))
    else:
        if not args.context or not args.generation:
            fail("--context and --generation are missing; expected the tables of attention, or --base")
        rate = yaml_number(args.system, "mem_bw") * yaml_number(args.system, "mem_bw_empirical_scaling_factor")
        constant = yaml_number(args.system, "mem_empirical_constant_latency")
        moved = lambda size: (size / rate + constant) * 1e6
        qk_norm = config.get("model_type", "").startswith("qwen3")
        write(part, "dense.csv", "layer,tokens,time_us", dense_rows(gemms, shape, qk_norm, moved))
        head = gemms.line(shape["vocabulary"], shape["hidden"])
        write(part, "per_sequence.csv", "layer,sequences,time_us",
              [("lm_head", m, time) for m, time in sorted(head.items()) if m <= 1024] +
              [("sampler", m, moved(2 * shape["vocabulary"] * ELEMENT * m)) for m in (1, 256, 1024)])
        write(part, "attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us",
              attention_rows(args.context, args.generation, shape))
        lines.append("timed_in_graphs: true")  # collector/helper.py, benchmark_with_power
        lines.append("computed from bytes: embedding, norms, rotary_emb, act_fn, sampler")
    if args.all_reduce:
        write(part, "all_reduce.csv", "bytes,time_us", all_reduce_rows(args.all_reduce, args.devices))
    shutil.copyfile(args.config, os.path.join(args.out, "config.json"))
    with open(os.path.join(args.out, "meta.yaml"), "w") as file:
        file.write("".join(line + "\n" for line in lines if line))


if __name__ == "__main__":
    main()
