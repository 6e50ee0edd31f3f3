// SPDX-License-Identifier: Apache-2.0
// A model's Hugging Face folder. read_checkpoint: its weights, mapped in place. read_decoder_config: the decoder's
// configuration, from config.json and generation_config.json. read_safetensors_header: a safetensors file's tensors and
// their places, with everything checked.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/checkpoint/mapped_file.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// The decoder that a parsed config.json describes; `where` opens the error's line. Known model types: llama, mistral,
/// qwen2, qwen3, opt, mixtral, deepseek_v2, deepseek_v3, kimi_k2, glm4_moe, qwen3_next, qwen3_5_text and
/// qwen3_5_moe_text, in float32, float16 or bfloat16. Refuses by name whatever would be computed wrongly: other
/// activations, rotations, attention windows or choices of experts, norms after the sublayers, unsupported biases.
///
/// Absent fields take the defaults of Hugging Face's classes where older configs lack them; absent sizes, norm epsilons
/// and longest contexts are errors.
Expected<DecoderConfig> decoder_from_hf_config(const nlohmann::json& config, const std::string& where);

/// The decoder that a model's folder describes. If there is a generation_config.json that names end tokens, they
/// replace those of config.json, as in Hugging Face's library.
Expected<DecoderConfig> read_decoder_config(const std::string& folder);

namespace detail {

/// A name in an error: longer than an excerpt, because the end of a name distinguishes a weight from a bias.
std::string tensor_text(std::string_view name);
/// "[128, 64]".
std::string shape_text(const std::vector<std::int64_t>& shape);

} // namespace detail

/// A tensor of a safetensors file.
struct StoredTensor {
  std::string name;
  std::string dtype; ///< as the file spells it: "F32", "BF16", …
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0; ///< bytes from the start of the file
  std::int64_t bytes = 0;

  [[nodiscard]] std::int64_t end() const { return begin + bytes; }
};

/// The longest header that is accepted, as in the format's own library.
inline constexpr std::int64_t longest_safetensors_header = 100'000'000;

/// The tensors of a safetensors file, whose bytes are `file`, in file order: an 8-byte little-endian length, a JSON
/// object of that length, the data. Errors, one line each, beginning with `where`: a length beyond the file or 100 MB,
/// invalid JSON, an entry without dtype, shape or offsets, an unknown dtype, offsets beyond the file or not matching
/// the shape, overlapping tensors, bytes that belong to no tensor. (The format requires the last; it also reveals an
/// entry that occurs twice, of which JSON readers see only one.)
[[nodiscard]] Expected<std::vector<StoredTensor>> read_safetensors_header(std::span<const std::byte> file,
                                                                          const std::string& where);

namespace detail {

/// The mapped files of a checkpoint, and the pages of each layer that may be dropped. Owned by the weights that point
/// into it.
struct MappedCheckpoint {
  std::vector<MappedFile> files;
  std::vector<std::vector<std::span<const std::byte>>> layers; ///< each layer's bytes in the files
  std::vector<std::vector<std::byte>> realigned;               ///< copies of tensors that are not aligned in the files
};

} // namespace detail

/// The model in a Hugging Face folder: config.json (and generation_config.json), and model.safetensors or the shards
/// that model.safetensors.index.json names. Tensors stay in the mapped files, in their stored type, and `forget(layer)`
/// drops their pages until they are read again; the shape's `weight_element_bytes` is that of the projections. Tensors
/// that the decoder does not use are ignored.
///
/// Errors, one line each, with file and tensor: a missing file or tensor, a shape or type that differs from config.json
/// or the first layer of its kind, a tensor in two files, a shard that lacks what the index lists; and all errors of
/// `read_safetensors_header` and `decoder_from_hf_config`.
[[nodiscard]] Expected<ModelWeights> read_checkpoint(const std::string& folder);

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/checkpoint/nlohmann/decoder_config.inl.hpp"
#include "sluice/model/checkpoint/nlohmann/hf_folder.inl.hpp"
#include "sluice/model/checkpoint/nlohmann/safetensors.inl.hpp"
#endif
