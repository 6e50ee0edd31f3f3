// SPDX-License-Identifier: Apache-2.0
// Writes the trained model as a Hugging Face folder.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/checkpoint/element.hpp"
#include "sluice/model/tokenizer/byte_pair_model.hpp"
#include "sluice/report/unfinished_file.hpp"

#include "byte_pairs.hpp"
#include "llama.hpp"
#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace training {

/// The special tokens, numbered after all others: the separator of texts, and ChatML's two.
inline constexpr std::array<const char*, 3> special_tokens{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

/// `tokenizer.json` and `tokenizer_config.json`: byte pairs with GPT-2's pattern, and ChatML.
[[nodiscard]] inline sluice::Status write_tokenizer(const std::string& folder, const BytePairs& pairs, int context) {
  using Json = nlohmann::ordered_json;
  Json vocabulary = Json::object();
  for (std::size_t token = 0; token < pairs.tokens.size(); ++token)
    vocabulary[sluice::byte_level_name(pairs.tokens[token])] = token;
  const auto name = [&](std::int32_t token) {
    return sluice::byte_level_name(pairs.tokens[static_cast<std::size_t>(token)]);
  };
  Json merges = Json::array();
  for (const auto& [left, right] : pairs.merges) merges.push_back(name(left) + " " + name(right));
  Json added = Json::array();
  for (std::size_t i = 0; i < special_tokens.size(); ++i)
    added.push_back({{"id", pairs.tokens.size() + i},
                     {"content", special_tokens[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  const Json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const Json tokenizer{{"version", "1.0"},
                       {"truncation", nullptr},
                       {"padding", nullptr},
                       {"added_tokens", added},
                       {"normalizer", nullptr},
                       {"pre_tokenizer", byte_level},
                       {"post_processor", nullptr},
                       {"decoder", byte_level},
                       {"model",
                        {{"type", "BPE"},
                         {"dropout", nullptr},
                         {"unk_token", nullptr},
                         {"continuing_subword_prefix", nullptr},
                         {"end_of_word_suffix", nullptr},
                         {"fuse_unk", false},
                         {"byte_fallback", false},
                         {"vocab", vocabulary},
                         {"merges", merges}}}};
  const Json config{
      {"tokenizer_class", "PreTrainedTokenizerFast"},
      {"bos_token", nullptr},
      {"eos_token", special_tokens[2]},
      {"pad_token", special_tokens[0]},
      {"model_max_length", context},
      {"clean_up_tokenization_spaces", false},
      {"chat_template",
       "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
       "'\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"}};
  if (sluice::Status status = sluice::write_whole(folder + "/tokenizer.json", tokenizer.dump(1) + "\n"); !status)
    return status;
  return sluice::write_whole(folder + "/tokenizer_config.json", config.dump(2) + "\n");
}

/// `config.json`. `positions`: the longest text that the model accepts.
[[nodiscard]] inline sluice::Status write_config(const std::string& folder, const LlamaShape& shape, int positions,
                                                 sluice::ElementType type) {
  const int first_special = shape.vocabulary - static_cast<int>(special_tokens.size());
  const nlohmann::ordered_json config{{"architectures", {"LlamaForCausalLM"}},
                                      {"model_type", "llama"},
                                      {"hidden_size", shape.hidden},
                                      {"intermediate_size", shape.mlp},
                                      {"num_hidden_layers", shape.layers},
                                      {"num_attention_heads", shape.heads},
                                      {"num_key_value_heads", shape.kv_heads},
                                      {"head_dim", shape.head_dim},
                                      {"vocab_size", shape.vocabulary},
                                      {"max_position_embeddings", positions},
                                      {"rms_norm_eps", shape.norm_epsilon},
                                      {"rope_theta", shape.rope_theta},
                                      {"hidden_act", "silu"},
                                      {"tie_word_embeddings", true},
                                      {"attention_bias", false},
                                      {"mlp_bias", false},
                                      {"bos_token_id", nullptr},
                                      {"eos_token_id", {first_special, first_special + 2}},
                                      {"torch_dtype", type == sluice::ElementType::bf16 ? "bfloat16" : "float32"}};
  return sluice::write_whole(folder + "/config.json", config.dump(2) + "\n");
}

/// `model.safetensors`: a header with each tensor's offset, then the tensors.
[[nodiscard]] inline sluice::Status write_weights(const std::string& folder, const ParameterPlaces& places,
                                                  std::span<const float> weights, sluice::ElementType type) {
  const auto size = static_cast<std::size_t>(sluice::bytes_of(type));
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const ParameterTensor& tensor : places.tensors) {
    nlohmann::ordered_json shape = nlohmann::ordered_json::array();
    if (!tensor.is_vector()) shape.push_back(tensor.rows);
    shape.push_back(tensor.columns);
    header[tensor.name] = {{"dtype", type == sluice::ElementType::bf16 ? "BF16" : "F32"},
                           {"shape", shape},
                           {"data_offsets", {tensor.offset * size, (tensor.offset + tensor.count()) * size}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' '); // tensors begin at a multiple of 8
  std::vector<std::byte> bytes(8 + text.size() + weights.size() * size);
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(text.size() >> (8 * i) & 0xff);
  for (std::size_t i = 0; i < text.size(); ++i) bytes[8 + i] = static_cast<std::byte>(text[i]);
  for (std::size_t i = 0; i < weights.size(); ++i)
    sluice::store_element(bytes.data() + 8 + text.size() + i * size, type, weights[i]);
  sluice::Expected<sluice::UnfinishedFile> file = sluice::UnfinishedFile::create(folder + "/model.safetensors");
  if (!file) return file.error();
  if (sluice::Status status = file->write(0, bytes); !status) return status;
  return file->finish();
}

} // namespace training
