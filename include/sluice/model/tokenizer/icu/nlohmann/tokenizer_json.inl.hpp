// SPDX-License-Identifier: Apache-2.0
// read_tokenizer: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/tokenizer/byte_pair_model.hpp"
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/model/tokenizer/icu/byte_pair_tokenizer.hpp"
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_json.hpp"
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_steps.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice::detail {

/// The bytes that a token of the file decodes to, an added one too: Hugging Face's decoders do not tell them apart.
[[nodiscard]] inline std::string text_of_token(const std::string& name, const DecoderRead& decoder) {
  if (decoder.byte_level) return bytes_of_byte_level(name).value_or(name);
  std::string text = name;
  for (const auto& [from, to] : decoder.replaced) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  }
  if (decoder.byte_fallback && text.size() == 6) {
    for (unsigned byte = 0; byte < 256; ++byte)
      if (text == byte_fallback_name(static_cast<unsigned char>(byte))) return std::string(1, static_cast<char>(byte));
  }
  return text;
}

[[nodiscard]] inline Error at_place(const std::string& where, Error error) {
  error.where = where;
  return error;
}

/// Refuses by name the settings of other kinds of model, because they would change tokens.
[[nodiscard]] inline Status check_plain_model(const nlohmann::json& model, const std::string& where) {
  if (!absent(model, "type")) { // files of 2019 have none, and were all byte pairs
    const Expected<std::string> type = JsonFields(model, where).text("type", "BPE");
    if (!type) return type.error();
    if (*type != "BPE") return unknown_step(*type, where + ".type", "BPE");
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!absent(model, name) && model[name] != "")
      return Error{ErrorCode::unsupported, where, std::string{name} + " is set", "an empty one"};
  }
  if (!absent(model, "dropout") && model["dropout"] != 0)
    return Error{ErrorCode::unsupported, where, "dropout is set", "null: tokens that do not change"};
  return {};
}

[[nodiscard]] inline Expected<Vocabulary> read_vocabulary(const nlohmann::json& model, const DecoderRead& decoder,
                                                          const std::string& where) {
  const auto vocab = model.find("vocab");
  if (vocab == model.end() || !vocab->is_object() || vocab->empty())
    return Error{ErrorCode::bad_input, where, "vocab is missing or no object", R"({"token": number, …})"};
  Vocabulary vocabulary;
  for (auto token = vocab->begin(); token != vocab->end(); ++token) {
    if (!token->is_number_integer()) {
      return Error{ErrorCode::bad_input, where + ".vocab",
                   "token '" + excerpt(token.key()) + "' has no whole number but " + token->type_name(), "a number"};
    }
    const bool huge = token->is_number_unsigned() && token->get<std::uint64_t>() > std::uint64_t{INT64_MAX};
    const Status added = vocabulary.add(huge ? INT64_MAX : token->get<std::int64_t>(), token.key(),
                                        text_of_token(token.key(), decoder), false);
    if (!added) return at_place(where + ".vocab", added.error());
  }
  return vocabulary;
}

[[nodiscard]] inline Expected<BytePairMerges> read_merges(const MergeList& list, const Vocabulary& vocabulary,
                                                          const std::string& where) {
  if (!list.wrong().empty()) {
    return Error{ErrorCode::bad_input, where + ".merges[" + std::to_string(list.size()) + "]",
                 list.wrong() + " is no pair", R"("a b" or ["a", "b"], two tokens)"};
  }
  BytePairMerges merges(list.size());
  std::string joined;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto wrong = [&](std::string_view name, const char* what) {
      return Error{ErrorCode::bad_input, where + ".merges[" + std::to_string(i) + "]", "'" + excerpt(name) + what,
                   "a token of it"};
    };
    const auto [left, right] = list[i];
    const auto left_id = vocabulary.id_of(left), right_id = vocabulary.id_of(right);
    if (!left_id || !right_id) return wrong(left_id ? right : left, "' is not in the vocabulary");
    joined.assign(left).append(right);
    const auto result = vocabulary.id_of(joined);
    if (!result) return wrong(joined, "', its result, is not in the vocabulary");
    merges.add(*left_id, *right_id, {static_cast<std::int32_t>(i), *result});
  }
  return merges;
}

[[nodiscard]] inline Expected<BytePairOptions> read_options(const nlohmann::json& model, const Vocabulary& vocabulary,
                                                            const std::string& where) {
  const JsonFields fields(model, where);
  BytePairOptions options;
  for (const auto& [name, flag] :
       {std::pair{"byte_fallback", &options.byte_fallback}, std::pair{"fuse_unk", &options.fuse_unknown},
        std::pair{"ignore_merges", &options.whole_first}}) {
    const Expected<bool> value = flag_or(fields, name, false);
    if (!value) return value.error();
    *flag = *value;
  }
  if (fields.has("unk_token")) {
    const Expected<std::string> name = fields.text("unk_token", "a token's name");
    if (!name) return name.error();
    const auto id = vocabulary.id_of(*name);
    if (!id) {
      return Error{ErrorCode::bad_input, where, "unk_token '" + excerpt(*name) + "' is not in the vocabulary",
                   "a token of it"};
    }
    options.unknown = *id;
  }
  return options;
}

/// Reads the file's `added_tokens` into the vocabulary and into the pass of the pipeline that finds them.
[[nodiscard]] inline Status read_added_tokens(const nlohmann::json& file, const DecoderRead& decoder,
                                              Vocabulary& vocabulary, BytePairPipeline& pipeline,
                                              const std::string& where) {
  if (absent(file, "added_tokens")) return {};
  const nlohmann::json& list = file["added_tokens"];
  if (!list.is_array()) return Error{ErrorCode::bad_input, where, "added_tokens is no list", "a list"};
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = where + ": added_tokens[" + std::to_string(i) + "]";
    if (!list[i].is_object()) return Error{ErrorCode::bad_input, at, "this is no object", "an object"};
    const JsonFields fields(list[i], at);
    const Expected<std::string> content = fields.text("content", "the token's text");
    if (!content) return content.error();
    if (content->empty()) return Error{ErrorCode::bad_input, at, "content is empty", "the token's text"};
    const Expected<std::int64_t> id = fields.whole("id", 0, most_tokens - 1);
    if (!id) return id.error();
    const Expected<bool> special = flag_or(fields, "special", false);
    if (!special) return special.error();
    const Expected<bool> normalized = flag_or(fields, "normalized", !*special);
    if (!normalized) return normalized.error();
    const Expected<bool> single_word = flag_or(fields, "single_word", false);
    if (!single_word) return single_word.error();
    if (*single_word) return Error{ErrorCode::unsupported, at, "single_word is true", "false"};
    const Expected<bool> before = flag_or(fields, "lstrip", false);
    if (!before) return before.error();
    const Expected<bool> after = flag_or(fields, "rstrip", false);
    if (!after) return after.error();

    const auto known = vocabulary.id_of(*content);
    if (known && *known != *id) {
      return Error{ErrorCode::bad_input, at,
                   "'" + excerpt(*content) + "' has the number " + std::to_string(*id) + ", and " +
                       std::to_string(*known) + " elsewhere in the file",
                   "one number"};
    }
    std::string text = text_of_token(*content, decoder);
    const Status added = known ? vocabulary.change(*known, std::move(text), *special)
                               : vocabulary.add(*id, *content, std::move(text), *special);
    if (!added) return at_place(at, added.error());
    std::string spelling = *content;
    if (*normalized) { // spelled as the text will be at that point
      Expected<std::string> form = pipeline.normalizer.apply(spelling);
      if (!form) return at_place(at, form.error());
      spelling = std::move(*form);
    }
    if (spelling.empty()) continue;
    (*normalized ? pipeline.normalized_tokens : pipeline.raw_tokens)
        .add({std::move(spelling), static_cast<std::int32_t>(*id), *before, *after});
  }
  return {};
}

/// A name in a tokenizer_config.json, either a string or an object with `content`; empty for none.
[[nodiscard]] inline std::string name_in_config(const nlohmann::json& config, const char* field) {
  if (absent(config, field)) return {};
  const nlohmann::json& value = config[field];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return {};
}

/// The chat template of a tokenizer_config.json: a text, or the one named "default" of several.
[[nodiscard]] inline std::string template_in_config(const nlohmann::json& config) {
  const auto field = config.find("chat_template");
  if (field == config.end()) return {};
  if (field->is_string()) return field->get<std::string>();
  if (!field->is_array()) return {};
  for (const nlohmann::json& one : *field)
    if (one.is_object() && one.value("name", nlohmann::json{}) == "default") return name_in_config(one, "template");
  return {};
}

/// Begin and end tokens, from the folder's tokenizer_config.json (`null` for none) and the families' names.
[[nodiscard]] inline TokenizerTraits read_traits(const Vocabulary& vocabulary, const nlohmann::json& config,
                                                 const TemplateRead& around, int leading_spaces) {
  TokenizerTraits traits;
  traits.leading_spaces = leading_spaces;
  if (config.is_object()) {
    traits.begin_token = vocabulary.id_of(name_in_config(config, "bos_token")).value_or(-1);
    if (const auto end = vocabulary.id_of(name_in_config(config, "eos_token"))) traits.end_tokens.push_back(*end);
    traits.chat_template = template_in_config(config);
  }
  if (traits.begin_token < 0 && !around.before.empty()) traits.begin_token = around.before.front();
  // What ends a turn or a text in the known families: a chat model may use any of its own.
  for (const char* name :
       {"</s>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|im_end|>", "<end_of_turn>"}) {
    const auto id = vocabulary.id_of(name);
    const bool there =
        id && std::find(traits.end_tokens.begin(), traits.end_tokens.end(), *id) != traits.end_tokens.end();
    if (id && !there && vocabulary.is_special(*id)) traits.end_tokens.push_back(*id);
  }
  return traits;
}

/// `tokenizer_from_json` for a file whose merges are in `list`.
[[nodiscard]] inline Expected<std::unique_ptr<Tokenizer>> make_tokenizer(const nlohmann::json& file,
                                                                         const MergeList& list,
                                                                         const std::string& where,
                                                                         const nlohmann::json& config) {
  const auto model = file.find("model");
  const std::string at_model = where + ": model";
  if (model == file.end() || !model->is_object())
    return Error{ErrorCode::bad_input, where, "model is missing or no object", "a model of type BPE"};
  if (Status status = check_plain_model(*model, at_model); !status) return status.error();
  const Expected<DecoderRead> decoder = read_decoder(file, where);
  if (!decoder) return decoder.error();
  Expected<PreTokenizerRead> cuts = read_pre_tokenizer(file, where);
  if (!cuts) return cuts.error();
  if (cuts->byte_level != decoder->byte_level || (decoder->byte_level && !decoder->replaced.empty())) {
    return Error{ErrorCode::unsupported, where + ": decoder", "it is not that of the pre_tokenizer",
                 "ByteLevel alone in both, or in neither"};
  }
  Expected<Normalizer> normalizer = read_normalizer(file, where);
  if (!normalizer) return normalizer.error();

  Expected<Vocabulary> vocabulary = read_vocabulary(*model, *decoder, at_model);
  if (!vocabulary) return vocabulary.error();
  const auto merges_field = model->find("merges");
  if (merges_field == model->end() || !merges_field->is_array())
    return Error{ErrorCode::bad_input, at_model, "merges is missing or no list", "a list of pairs of tokens"};
  Expected<BytePairMerges> merges = read_merges(list, *vocabulary, at_model);
  if (!merges) return merges.error();
  Expected<BytePairOptions> options = read_options(*model, *vocabulary, at_model);
  if (!options) return options.error();
  options->byte_level = cuts->byte_level;
  Expected<BytePairModel> pairs = BytePairModel::make(*vocabulary, std::move(*merges), *options);
  if (!pairs) return at_place(at_model + ".vocab", pairs.error());

  BytePairPipeline pipeline{{}, std::move(*normalizer), {}, std::move(cuts->steps), std::move(*pairs), {}, {}};
  if (Status status = read_added_tokens(file, *decoder, *vocabulary, pipeline, where); !status) return status.error();
  const Expected<TemplateRead> around = read_template(file, *vocabulary, where);
  if (!around) return around.error();
  pipeline.before = around->before;
  pipeline.after = around->after;
  TokenizerTraits traits = read_traits(*vocabulary, config, *around, decoder->leading_spaces);
  return std::unique_ptr<Tokenizer>(
      std::make_unique<BytePairTokenizer>(std::move(*vocabulary), std::move(traits), std::move(pipeline)));
}

inline constexpr std::size_t longest_chat_template = std::size_t{1} << 20;   ///< the longest known one has 17 kB
inline constexpr std::size_t longest_tokenizer_file = std::size_t{64} << 20; ///< Llama-3's has 17 MB

/// Converts OPT's and the first GPT-2's vocab.json and merges.txt into an equivalent tokenizer.json.
[[nodiscard]] inline Expected<nlohmann::json> json_of_vocab_and_merges(const std::filesystem::path& folder,
                                                                       const nlohmann::json& config) {
  Expected<nlohmann::json> vocab = read_json_object((folder / "vocab.json").string(), longest_tokenizer_file);
  if (!vocab) return vocab.error();
  const std::string path = (folder / "merges.txt").string();
  std::ifstream text(path, std::ios::binary);
  if (!text) return Error{ErrorCode::not_found, path, "the file cannot be opened", "the merges of vocab.json"};
  nlohmann::json merges = nlohmann::json::array();
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.rfind("#version", 0) == 0) continue;
    merges.push_back(std::move(line));
  }
  nlohmann::json file;
  const nlohmann::json level{{"type", "ByteLevel"}, {"add_prefix_space", false}};
  file["pre_tokenizer"] = file["decoder"] = level;
  file["added_tokens"] = nlohmann::json::array();
  std::vector<std::string> special{name_in_config(config, "bos_token"),
                                   name_in_config(config, "eos_token"),
                                   name_in_config(config, "unk_token"),
                                   name_in_config(config, "pad_token"),
                                   "<|endoftext|>",
                                   "<s>",
                                   "</s>",
                                   "<pad>",
                                   "<unk>"};
  std::sort(special.begin(), special.end());
  special.erase(std::unique(special.begin(), special.end()), special.end());
  for (const std::string& name : special) {
    if (name.empty() || !vocab->contains(name)) continue;
    file["added_tokens"].push_back({{"id", (*vocab)[name]}, {"content", name}, {"special", true}});
  }
  const auto adds = config.is_object() ? config.find("add_bos_token") : config.end();
  const std::string begin = name_in_config(config, "bos_token");
  if (config.is_object() && adds != config.end() && *adds == true && !begin.empty()) {
    file["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", {{{"SpecialToken", {{"id", begin}}}}, {{"Sequence", {{"id", "A"}}}}}}};
  }
  file["model"] = {{"type", "BPE"}, {"vocab", std::move(*vocab)}, {"merges", std::move(merges)}};
  return file;
}

/// Refuses a folder with only part of a tokenizer, or with one of another kind: encoding as bytes would give the model
/// a different text, without any error. `there`: whether the folder has a file of that name.
template <class There>
[[nodiscard]] Status check_no_part(const std::string& folder, There&& there) {
  const struct {
    const char* file;
    const char* missing;
    const char* expected;
  } parts[] = {
      {"vocab.json", "merges.txt and no tokenizer.json", "merges.txt beside it, or tokenizer.json"},
      {"merges.txt", "vocab.json and no tokenizer.json", "vocab.json beside it, or tokenizer.json"},
      {"tokenizer.model", "tokenizer.json", "tokenizer.json, which Hugging Face's tokenizers write of it"},
      {"tekken.json", "tokenizer.json", "tokenizer.json, which Hugging Face's tokenizers write of it"},
      {"tokenizer_config.json", "tokenizer.json", "tokenizer.json, or neither where a token is a byte"},
  };
  for (const auto& part : parts) {
    if (!there(part.file)) continue;
    return Error{ErrorCode::unsupported, folder,
                 std::string{"the folder has a "} + part.file + " and no " + part.missing, part.expected};
  }
  return {};
}

} // namespace sluice::detail

namespace sluice {

SLUICE_MODEL_INLINE Expected<std::unique_ptr<Tokenizer>>
tokenizer_from_json(const nlohmann::json& file, const std::string& where, const nlohmann::json& config) {
  MergeList merges;
  const auto model = file.find("model");
  if (model != file.end() && model->is_object()) {
    const auto list = model->find("merges");
    if (list != model->end() && list->is_array())
      for (const nlohmann::json& entry : *list) merges.take(entry);
  }
  return detail::make_tokenizer(file, merges, where, config);
}

SLUICE_MODEL_INLINE Expected<std::unique_ptr<Tokenizer>> tokenizer_from_text(std::string text, const std::string& where,
                                                                             const nlohmann::json& config) {
  MergeList merges;
  const nlohmann::json file = nlohmann::json::parse(text, detail::TakeMerges(merges), false);
  if (file.is_discarded() || !file.is_object()) {
    const Expected<nlohmann::json> told = parse_json_object(text, where); // its error says what is wrong
    if (!told) return told.error();
  }
  text = {};
  return detail::make_tokenizer(file, merges, where, config);
}

SLUICE_MODEL_INLINE Expected<std::unique_ptr<Tokenizer>> read_tokenizer(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  const auto there = [&](const char* name) { return fs::exists(folder / name, ignored); };
  nlohmann::json config = nullptr;
  if (there("tokenizer_config.json")) {
    Expected<nlohmann::json> read = read_json_object((folder / "tokenizer_config.json").string());
    if (!read) return read.error();
    config = std::move(*read);
  }
  if (there("chat_template.jinja")) { // newer folders have it here, and not in the configuration
    Expected<std::string> read =
        read_json_text((folder / "chat_template.jinja").string(), detail::longest_chat_template);
    if (!read) return read.error();
    if (!config.is_object()) config = nlohmann::json::object();
    config["chat_template"] = *std::move(read);
  }
  if (!is_folder || there("tokenizer.json")) {
    const std::string file = is_folder ? (folder / "tokenizer.json").string() : path;
    Expected<std::string> text = read_json_text(file, detail::longest_tokenizer_file);
    if (!text) return text.error();
    return tokenizer_from_text(std::move(*text), file, config);
  }
  if (there("vocab.json") && there("merges.txt")) {
    const Expected<nlohmann::json> read = detail::json_of_vocab_and_merges(folder, config);
    if (!read) return read.error();
    return tokenizer_from_json(*read, (folder / "vocab.json").string(), config);
  }
  if (Status status = detail::check_no_part(path, there); !status) return status.error();
  return std::unique_ptr<Tokenizer>(std::make_unique<ByteTokenizer>());
}

} // namespace sluice
