# SPDX-License-Identifier: Apache-2.0
"""The workload of this project's programs and of their peers: a model's shape, and prompts of random tokens."""
import random
from dataclasses import dataclass, replace

LLAMA3_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "_name_or_path": "llama3-8b",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
# The model of rehearsals: as large as sluice-run's `tiny`, with f32 weights.
TINY = {
    **LLAMA3_8B,
    "_name_or_path": "tiny",
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "num_hidden_layers": 8,
    "head_dim": 32,
    "vocab_size": 260,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "torch_dtype": "float32",
}
BLOCK_TOKENS = 16


def of_layers(model, layers, vocabulary=None):
    """The same shape with fewer layers, and optionally a smaller vocabulary."""
    fewer = {**model, "num_hidden_layers": min(layers, model["num_hidden_layers"])}
    return {**fewer, "vocab_size": min(vocabulary or model["vocab_size"], model["vocab_size"])}


def prompts(model, count, length, seed=1):
    """This many prompts without a common prefix."""
    draw = random.Random(seed)
    return [[draw.randrange(model["vocab_size"]) for _ in range(length)] for _ in range(count)]


def weight_bytes(model):
    """Bytes of all weights of a Llama's shape."""
    hidden, heads = model["hidden_size"], model["num_attention_heads"] * model["head_dim"]
    keys = 2 * model["num_key_value_heads"] * model["head_dim"]
    layer = hidden * (2 * heads + keys + 3 * model["intermediate_size"] + 2)
    numbers = model["num_hidden_layers"] * layer + hidden * (2 * model["vocab_size"] + 1)
    return numbers * {"bfloat16": 2, "float32": 4}[model["torch_dtype"]]


def layer_block_bytes(model):
    """Bytes of K and V of a block of tokens in one layer."""
    numbers = 2 * model["num_key_value_heads"] * model["head_dim"] * BLOCK_TOKENS
    return numbers * {"bfloat16": 2, "float32": 4}[model["torch_dtype"]]


def kv_bytes(model, sequences, tokens, layers=None):
    """Bytes of K and V of this many sequences, in all layers or in some."""
    blocks = sequences * -(-tokens // BLOCK_TOKENS)
    return blocks * (layers or model["num_hidden_layers"]) * layer_block_bytes(model)


@dataclass(frozen=True)
class Asked:
    """The workload of a row of the stage peers: prompts of `prompt` tokens at once, each for `generated` more."""

    layers: int
    requests: int
    prompt: int
    generated: int
    against: str = ""  # the row that it is compared with

    def rehearsed(self):
        return replace(self, requests=2, prompt=16, generated=4)

    def text(self, model):
        return (
            f"{self.requests} x {self.prompt} tokens and {self.generated} more on {model['_name_or_path']}, "
            f"{model['num_hidden_layers']} layers, random weights"
        )


# 16 layers on both sides: each program draws its weights, and 16 more layers would take the time of four rows.
# Hooks copy all weights for every token, as ours does; with 8 layers this takes seconds per row.
FITS, KV, WEIGHTS = Asked(16, 8, 1024, 64), Asked(16, 8, 1024, 16), Asked(8, 8, 256, 6)
CUDNN, FLASHINFER = "torch, cuDNN's attention", "FlashInfer, attention"
PEERS = {
    "ours, everything fits": replace(FITS, against="peers/transformers, default cache"),
    "ours, KV offloaded": replace(KV, against="peers/transformers, offloaded cache"),
    "ours, weights streamed": replace(WEIGHTS, against="peers/accelerate, weight hooks"),
    "transformers, default cache": FITS,
    "transformers, offloaded cache": KV,
    "accelerate, weight hooks": WEIGHTS,
    "torch, attention, 8 decode at 4k": Asked(1, 8, 4095, 1, against="rates/attention, 8 decode at 4k"),
    "torch, attention, a prompt of 4k": Asked(1, 1, 4096, 0, against="rates/attention, a prompt of 4k"),
    f"{CUDNN}, 8 decode at 4k": Asked(1, 8, 4095, 1, against="rates/attention, 8 decode at 4k"),
    f"{CUDNN}, a prompt of 4k": Asked(1, 1, 4096, 0, against="rates/attention, a prompt of 4k"),
    f"{FLASHINFER}, 8 decode at 4k": Asked(1, 8, 4095, 1, against="rates/attention, 8 decode at 4k"),
    f"{FLASHINFER}, a prompt of 4k": Asked(1, 1, 4096, 0, against="rates/attention, a prompt of 4k"),
    "transformers, compiled static cache": FITS,
}
