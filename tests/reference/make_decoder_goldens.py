# SPDX-License-Identifier: Apache-2.0
"""Logits of a small random model of each family, computed by torch, for tests/model/decoder/eigen/goldens_test.cpp.

    python3 tests/reference/make_decoder_goldens.py > tests/reference/decoder_goldens.txt

Each family's forward pass is written here from its definition, for a whole sequence at once, in double precision. It
shares nothing with the C++: no blocks, no chunks, no online softmax. Both sides make the weights, f32 numbers, from
(tensor, element); see `numbers` and tests/model/decoder/made_model.hpp.
"""
import math

import numpy
import torch

TOKENS = 53
POSITIONS = [0, 1, 7, 15, 16, 31, 40, 52]
SHOWN = 10  # logits of each position

# The order of LayerTensor and of OuterTensor in the C++.
LAYER = ["attention_norm", "attention_norm_bias", "query_bias", "key_bias", "value_bias", "output_bias", "query_norm",
         "key_norm", "mlp_norm", "mlp_norm_bias", "up_bias", "down_bias", "router", "query", "key", "value", "output",
         "gate", "up", "down"]
OUTER = ["embedding", "positions", "final_norm", "final_norm_bias", "head"]

BASE = dict(layers=3, hidden=64, heads=4, kv_heads=2, head_dim=16, mlp=96, vocabulary=101, epsilon=1e-5, theta=10000.0,
            scaling=None, qkv_bias=False, head_norm=False, tied=False)
FAMILIES = {
    "llama2": dict(BASE, kv_heads=4, mlp=88),
    "llama3": dict(BASE, theta=500.0, scaling=dict(factor=8.0, low=1.0, high=4.0, original=64)),
    "qwen2": dict(BASE, theta=1000000.0, epsilon=1e-6, qkv_bias=True, tied=True),
    "qwen3": dict(BASE, theta=1000000.0, epsilon=1e-6, hidden=56, head_dim=24, head_norm=True),
    "opt": dict(BASE, kv_heads=4, positions=82, offset=2, qkv_bias=True, tied=True),
    "mixtral": dict(BASE, theta=1000000.0, experts=5, taken=2, mlp=40),
}


def numbers(tensor, shape, scale=0.25, middle=0.0):
    """f32 numbers in [-scale, scale) around `middle`: splitmix64's finish of the tensor's and the element's number."""
    with numpy.errstate(over="ignore"):
        z = numpy.arange(int(numpy.prod(shape)), dtype=numpy.uint64)
        z = z + numpy.uint64(tensor << 32) + numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ (z >> numpy.uint64(31))
    unit = (z >> numpy.uint64(40)).astype(numpy.float32) * numpy.float32(2.0**-23) - numpy.float32(1)
    values = unit * numpy.float32(scale) + numpy.float32(middle)
    return torch.from_numpy(values.reshape(shape).astype(numpy.float64))


def outer(name, shape, scale=0.25, middle=0.0):
    return numbers(OUTER.index(name), shape, scale, middle)


def of_layer(layer, name, shape, expert=-1):
    middle = 1.0 if name in ("attention_norm", "mlp_norm", "query_norm", "key_norm") else 0.0
    return numbers(((layer + 1) * 64 + LAYER.index(name)) * 64 + expert + 1, shape, 0.25, middle)


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + epsilon) * weight


def frequencies(c):
    """Rotary frequencies, with Llama 3.1's scaling as its model card's code states it."""
    result = []
    for i in range(c["head_dim"] // 2):
        f = c["theta"] ** (-2.0 * i / c["head_dim"])
        s = c["scaling"]
        if s is not None:
            wave = 2 * math.pi / f
            if wave > s["original"] / s["low"]:
                f = f / s["factor"]
            elif wave >= s["original"] / s["high"]:
                smooth = (s["original"] / wave - s["low"]) / (s["high"] - s["low"])
                f = (1 - smooth) * f / s["factor"] + smooth * f
        result.append(f)
    return torch.tensor(result, dtype=torch.float64)


def rotate(x, angles):
    """x: [token][head][size]; halves rotated against each other."""
    half = x.shape[-1] // 2
    cos, sin = torch.cos(angles)[:, None, :], torch.sin(angles)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attention(c, family, layer, x):
    heads, kv_heads, size, hidden = c["heads"], c["kv_heads"], c["head_dim"], c["hidden"]
    count = x.shape[0]
    q = x @ of_layer(layer, "query", (heads * size, hidden)).T
    k = x @ of_layer(layer, "key", (kv_heads * size, hidden)).T
    v = x @ of_layer(layer, "value", (kv_heads * size, hidden)).T
    if c["qkv_bias"]:
        q = q + of_layer(layer, "query_bias", (heads * size,))
        k = k + of_layer(layer, "key_bias", (kv_heads * size,))
        v = v + of_layer(layer, "value_bias", (kv_heads * size,))
    q, k, v = q.view(count, heads, size), k.view(count, kv_heads, size), v.view(count, kv_heads, size)
    if c["head_norm"]:
        q = rms_norm(q, of_layer(layer, "query_norm", (size,)), c["epsilon"])
        k = rms_norm(k, of_layer(layer, "key_norm", (size,)), c["epsilon"])
    if family != "opt":
        angles = torch.arange(count, dtype=torch.float64)[:, None] * frequencies(c)[None, :]
        q, k = rotate(q, angles), rotate(k, angles)
    k = k.repeat_interleave(heads // kv_heads, dim=1)
    v = v.repeat_interleave(heads // kv_heads, dim=1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(size)
    future = torch.triu(torch.ones(count, count, dtype=torch.bool), 1)
    weights = torch.softmax(scores.masked_fill(future, -math.inf), -1)
    out = torch.einsum("hqk,khd->qhd", weights, v).reshape(count, heads * size)
    out = out @ of_layer(layer, "output", (hidden, heads * size)).T
    return out + of_layer(layer, "output_bias", (hidden,)) if family == "opt" else out


def gated(c, layer, x, expert=-1):
    hidden, width = c["hidden"], c["mlp"]
    gate = x @ of_layer(layer, "gate", (width, hidden), expert).T
    up = x @ of_layer(layer, "up", (width, hidden), expert).T
    return (torch.nn.functional.silu(gate) * up) @ of_layer(layer, "down", (hidden, width), expert).T


def mlp(c, family, layer, x):
    hidden, width = c["hidden"], c["mlp"]
    if family == "opt":
        up = x @ of_layer(layer, "up", (width, hidden)).T + of_layer(layer, "up_bias", (width,))
        return torch.relu(up) @ of_layer(layer, "down", (hidden, width)).T + of_layer(layer, "down_bias", (hidden,))
    if family != "mixtral":
        return gated(c, layer, x)
    # As in Mixtral's code: softmax over all experts, then the best ones' shares normalised to sum to one.
    shares = torch.softmax(x @ of_layer(layer, "router", (c["experts"], hidden)).T, -1)
    best, which = torch.topk(shares, c["taken"], -1)
    best = best / best.sum(-1, keepdim=True)
    out = torch.zeros_like(x)
    for expert in range(c["experts"]):
        share = (best * (which == expert)).sum(-1, keepdim=True)
        out = out + share * gated(c, layer, x, expert)
    return out


def logits(c, family, tokens):
    hidden, vocabulary = c["hidden"], c["vocabulary"]
    embedding = outer("embedding", (vocabulary, hidden), 1.0)
    x = embedding[tokens]

    def norm(x, layer, name):
        if family != "opt":
            return rms_norm(x, of_layer(layer, name, (hidden,)), c["epsilon"])
        return torch.nn.functional.layer_norm(x, (hidden,), of_layer(layer, name, (hidden,)),
                                              of_layer(layer, name + "_bias", (hidden,)), c["epsilon"])

    if family == "opt":
        x = x + outer("positions", (c["positions"], hidden), 1.0)[c["offset"]:c["offset"] + len(tokens)]
    for layer in range(c["layers"]):
        x = x + attention(c, family, layer, norm(x, layer, "attention_norm"))
        x = x + mlp(c, family, layer, norm(x, layer, "mlp_norm"))
    last = outer("final_norm", (hidden,), 0.25, 1.0)
    if family == "opt":
        x = torch.nn.functional.layer_norm(x, (hidden,), last, outer("final_norm_bias", (hidden,)), c["epsilon"])
    else:
        x = rms_norm(x, last, c["epsilon"])
    return x @ (embedding if c["tied"] else outer("head", (vocabulary, hidden))).T


def main():
    print("# Made by tests/reference/make_decoder_goldens.py: family position argmax largest-magnitude logits[0..9]")
    for family, c in FAMILIES.items():
        tokens = [(7 * i * i + 13 * i + 5) % c["vocabulary"] for i in range(TOKENS)]
        rows = logits(c, family, tokens)
        for position in POSITIONS:
            row = rows[position]
            shown = " ".join(f"{value:.7g}" for value in row[:SHOWN].tolist())
            print(family, position, int(row.argmax()), f"{float(row.abs().max()):.7g}", shown)


main()
