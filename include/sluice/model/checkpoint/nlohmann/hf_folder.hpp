// SPDX-License-Identifier: Apache-2.0
// read_checkpoint: a model's weights from a Hugging Face folder, mapped in place.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/checkpoint/mapped_file.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace sluice {

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
/// or the first layer, a tensor in two files, a shard that lacks what the index lists; and all errors of
/// `read_safetensors_header` and `decoder_from_hf_config`.
[[nodiscard]] Expected<ModelWeights> read_checkpoint(const std::string& folder);

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/checkpoint/nlohmann/hf_folder.inl.hpp"
#endif
