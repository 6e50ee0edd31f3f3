// SPDX-License-Identifier: Apache-2.0
// random_model: a model made from its shape, with random weights.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/thread_pool.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/model/named.hpp"
#include "sluice/world/local/memory.hpp"

#include "shared/sizes.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

/// Returns the decoder for a folder's config.json, or for a name in `named_models`, with its published shape. A
/// published shape has no position parameters and needs none: rotations have the same cost with any parameters.
/// Contexts have 8,192 tokens; an OPT's table has 2,048.
inline sluice::Expected<sluice::DecoderConfig> decoder_without_weights(const std::string& name) {
  using namespace sluice;
  std::error_code ignored;
  if (std::filesystem::is_directory(name, ignored)) return read_decoder_config(name);
  const Expected<ModelShape> shape = find_model(name);
  if (!shape)
    return Error{ErrorCode::bad_input, "--model", "there is no folder and no model '" + excerpt(name, 200) + "'",
                 "one of " + model_names() + ", or a folder with a config.json"};
  DecoderConfig decoder = decoder_of(*shape);
  const bool opt = decoder.position == PositionKind::learned;
  decoder.max_positions = opt ? 2048 : 8192;
  decoder.position_offset = opt ? 2 : 0;
  decoder.qkv_bias = decoder.output_bias = decoder.mlp_bias = opt;
  return decoder;
}

/// Makes that decoder with random weights from `seed`, in its shape's element type (among the two-byte types: bf16),
/// drawn by all threads of this machine. Errors: `where` is no such model, or this machine has too little memory.
inline sluice::Expected<sluice::ModelWeights> random_model(const std::string& name, std::uint64_t seed) {
  using namespace sluice;
  const Expected<DecoderConfig> decoder = decoder_without_weights(name);
  if (!decoder) return decoder.error();
  const ElementType type = decoder->shape.weight_element_bytes == 4 ? ElementType::f32 : ElementType::bf16;
  const Bytes bytes = decoder->shape.weight_bytes(), there = physical_memory();
  if (bytes > there)
    return Error{ErrorCode::out_of_memory, "--model",
                 name + " has " + exact_bytes(bytes.count()) + " of weights, and this machine " +
                     exact_bytes(there.count()) + " of memory",
                 "a smaller model"};
  ThreadPool threads(std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64));
  return random_weights(*decoder, seed, type, [&threads](int count, const auto& draw) {
    threads.run(count, [&draw](int i, int /*thread*/) { draw(i); });
  });
}
