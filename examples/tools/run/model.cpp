// SPDX-License-Identifier: Apache-2.0
// The models of sluice-run.
#include "run/model.hpp"

#include "sluice/core/text.hpp"
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/world/local/nlohmann/model_folder.hpp"
#if defined(SLUICE_HAS_ICU)
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_json.hpp"
#endif

#include "run/options.hpp"
#include "shared/random_model.hpp"
#include "shared/shipped.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace running {

using namespace sluice;

namespace {

Expected<std::unique_ptr<Tokenizer>> tokenizer_of(const std::string& folder, [[maybe_unused]] const ModelHints& hints) {
#if defined(SLUICE_HAS_ICU)
  return read_tokenizer(folder);
#else
  Expected<std::unique_ptr<Tokenizer>> tokenizer = read_byte_tokenizer(folder);
  if (tokenizer) return tokenizer;
  Error error = tokenizer.error();
  error.expected = hints.without_icu;
  return error;
#endif
}

} // namespace

bool is_made(const std::string& name) { return find_tiny_model(name) != nullptr; }

std::string model_folder(const std::string& name) { return name == "demo" ? shipped_model(name) : name; }

Expected<LocalModel> open_model(const std::string& name, bool text, std::optional<std::uint64_t> random,
                                const ModelHints& hints) {
  if (const TinyModel* tiny = find_tiny_model(name)) return tiny->make(random.value_or(tiny_llama_seed));
  const std::string folder = model_folder(name);
  std::error_code ignored;
  const bool there = std::filesystem::is_directory(folder, ignored);
  if (!there && !random)
    return flag_error(
        "--model",
        "there is no folder '" + excerpt(folder, 200) + "'" +
            did_you_mean(name, std::array<std::string_view, 6>{"tiny", "tiny-window", "tiny-mla", "tiny-mla-experts",
                                                               "tiny-delta", "demo"}),
        "tiny, tiny-window, tiny-mla, tiny-mla-experts, tiny-delta, demo beside this program, or a folder with "
        "config.json and *.safetensors; with " +
            std::string{hints.by_name} + " a model's name");
  if (!there && text)
    return flag_error("--prompt", name + " with random weights has no tokenizer", "--prompt-ids or --trace");
  LocalModel model;
  if (random) {
    Expected<ModelWeights> weights = random_model(folder, *random);
    if (!weights) return weights.error();
    model.weights = *std::move(weights);
  } else {
    Expected<LocalModel> read = read_model(folder);
    if (!read) return read;
    model = *std::move(read);
  }
  model.name = name;
  if (!text) return model;
  Expected<std::unique_ptr<Tokenizer>> tokenizer = tokenizer_of(folder, hints);
  if (!tokenizer) return tokenizer.error();
  model.tokenizer = std::move(*tokenizer);
  return model;
}

std::string models_text() {
  const auto sizes = [](const ModelWeights& weights) {
    const std::int64_t layer = weights.layout.bytes.count(), outer = weights.outer_bytes().count();
    const std::int64_t block = kv_block_floats(weights.config.shape, Tokens{16}) * 4;
    return fmt::format("                       weights {} bytes (f32): {} bytes per layer, {} outside the layers\n"
                       "                       KV in blocks of 16 tokens of one layer, {} bytes ({} KiB) each\n",
                       layer * weights.config.shape.layers + outer, layer, outer, block, block / 1024);
  };
  const ModelWeights tiny = tiny_llama(), latent = tiny_latent(), routed = tiny_latent_experts(), delta = tiny_delta();
  const ModelShape &shape = tiny.config.shape, &other = latent.config.shape, &sparse = routed.config.shape;
  const ModelShape& states = delta.config.shape;
  const ModelWeights windows = tiny_windows();
  const std::vector<int>& by_layer = windows.config.windows;
  return fmt::format(
      "tiny                   a random Llama from a fixed seed: {} layers, {} KV heads of {}, {} query "
      "heads, {} tokens\n{}"
      "tiny-window            the same, with windows of {} tokens in {} layers, as in Gemma 3\n{}"
      "tiny-mla               tiny with latent attention, as in DeepSeek-V2: per token a latent of {} "
      "and a rotated key of {}\n{}"
      "tiny-mla-experts       tiny-mla with experts in all layers but the first, as in DeepSeek-V3: {} of {} per "
      "token, and shared ones\n{}"
      "tiny-delta             the Llama with the gated delta rule in {} layers, as in Qwen3-Next: a state of {} heads "
      "of "
      "{} x {}\n{}"
      "demo                   a Llama of 1.4 million parameters, trained on Jane Austen's novels\n",
      shape.layers, shape.kv_heads, shape.head_dim, shape.heads, shape.vocabulary, sizes(tiny),
      windows.config.windows.front(), std::count(by_layer.begin(), by_layer.end(), by_layer.front()), sizes(windows),
      other.latent.rank, other.latent.rotated, sizes(latent), sparse.experts_per_token, sparse.experts, sizes(routed),
      states.delta.layers.count(), states.delta.value_heads, states.delta.key_dim, states.delta.value_dim,
      sizes(delta));
}

} // namespace running
