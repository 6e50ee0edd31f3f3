// SPDX-License-Identifier: Apache-2.0
// Models of sluice-run.
#include "run/model.hpp"

#include "sluice/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/checkpoint/tiny.hpp"
#include "sluice/decoder/decoder.hpp"
#include "sluice/tokenizer/bytes.hpp"
#if defined(SLUICE_HAS_ICU)
#include "sluice/tokenizer/icu/nlohmann/tokenizer_json.hpp"
#endif

#include "run/options.hpp"
#include "shared/sizes.hpp"
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace running {

using namespace sluice;

namespace {

Expected<std::unique_ptr<Tokenizer>> tokenizer_of(const std::string& folder) {
#if defined(SLUICE_HAS_ICU)
  return read_tokenizer(folder);
#else
  for (const char* file : {"tokenizer.json", "vocab.json", "tokenizer.model"}) {
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::path(folder) / file, ignored))
      return Error{ErrorCode::unsupported, folder,
                   std::string{"its "} + file + " needs ICU, which this build is without",
                   "--prompt-ids, or a build with ICU"};
  }
  return std::unique_ptr<Tokenizer>(std::make_unique<ByteTokenizer>());
#endif
}

} // namespace

Expected<Model> open_model(const std::string& name, bool text) {
  Model model;
  if (name == "tiny") {
    model.weights = tiny_llama();
    model.tokenizer = std::make_unique<ByteTokenizer>();
    return model;
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(name, ignored))
    return flag_error("--model", "there is no folder '" + excerpt(name, 200) + "'",
                      "tiny, or a folder with config.json and *.safetensors");
  Expected<ModelWeights> weights = read_checkpoint(name);
  if (!weights) return weights.error();
  model.weights = std::move(*weights);
  if (text) {
    Expected<std::unique_ptr<Tokenizer>> tokenizer = tokenizer_of(name);
    if (!tokenizer) return tokenizer.error();
    model.tokenizer = std::move(*tokenizer);
  }
  return model;
}

std::string tiny_text() {
  const ModelWeights tiny = tiny_llama();
  const ModelShape& shape = tiny.config.shape;
  const std::int64_t layer = tiny.layout.bytes.count();
  const std::int64_t block = kv_block_floats(shape, Tokens{16}) * 4;
  return fmt::format(
      "tiny                   a random Llama of a fixed seed: {} layers, {} KV heads of {}, {} query heads, "
      "{} tokens\n"
      "                       weights {} bytes (f32): {} bytes a layer, {} outside the layers\n"
      "                       KV in blocks of 16 tokens of one layer, {} bytes ({} KiB) each\n",
      shape.layers, shape.kv_heads, shape.head_dim, shape.heads, shape.vocabulary,
      layer * shape.layers + tiny.outer_bytes().count(), layer, tiny.outer_bytes().count(), block, block / 1024);
}

} // namespace running
