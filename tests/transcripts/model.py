# A small Llama with random weights, as a Hugging Face folder.
import array
import json
import random
import struct


def write_model(folder, layers=2, hidden=24, mlp=40, vocabulary=50, heads=4, kv_heads=2, head_dim=6):
    """Returns the bytes of its layers' weights."""
    config = {"model_type": "llama", "_name_or_path": "llama", "num_hidden_layers": layers, "hidden_size": hidden,
              "intermediate_size": mlp, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
              "head_dim": head_dim, "vocab_size": vocabulary, "tie_word_embeddings": False,
              "max_position_embeddings": 128, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "rope_scaling": None, "bos_token_id": 1, "eos_token_id": [3], "torch_dtype": "float32"}
    shapes = {"model.embed_tokens": [vocabulary, hidden], "model.norm": [hidden], "lm_head": [vocabulary, hidden]}
    of_layer = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden],
                "self_attn.q_proj": [heads * head_dim, hidden], "self_attn.k_proj": [kv_heads * head_dim, hidden],
                "self_attn.v_proj": [kv_heads * head_dim, hidden], "self_attn.o_proj": [hidden, heads * head_dim],
                "mlp.gate_proj": [mlp, hidden], "mlp.up_proj": [mlp, hidden], "mlp.down_proj": [hidden, mlp]}
    for layer in range(layers):
        shapes.update({f"model.layers.{layer}.{name}": shape for name, shape in of_layer.items()})
    drawn = random.Random(7)
    values = array.array("f", (drawn.gauss(0, 0.3) for _ in range(4099)))
    header, at, data = {}, 0, []
    for name, shape in shapes.items():
        count = shape[0] * shape[-1] if len(shape) > 1 else shape[0]
        begin = drawn.randrange(len(values))
        own = (values[begin:] + values * (count // len(values) + 1))[:count] if len(shape) > 1 else array.array("f", [1] * count)
        header[name + ".weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * count]}
        at += 4 * count
        data.append(own.tobytes())
    with open(folder + "/config.json", "w") as file:
        json.dump(config, file)
    text = json.dumps(header).encode()
    with open(folder + "/model.safetensors", "wb") as file:
        file.writelines([struct.pack("<Q", len(text)), text, *data])
    return layers * sum(4 * shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in of_layer.values())
