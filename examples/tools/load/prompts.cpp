// SPDX-License-Identifier: Apache-2.0
// Prompts of sluice-load.
#include "load/prompts.hpp"

#include "sluice/core/random.hpp"
#include "sluice/core/text.hpp"
#include "sluice/report/observer/json_writer.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <utility>

namespace loading {

using namespace sluice;

namespace {

constexpr std::size_t most_text = std::size_t{16} << 20;
constexpr std::size_t most_tokenized = std::size_t{64} << 10;
constexpr std::array<std::string_view, 48> words{
    "the",   "of",   "and",   "a",    "to",    "in",    "is",    "you",  "that", "it",    "he",    "was",
    "for",   "on",   "are",   "as",   "with",  "his",   "they",  "at",   "be",   "this",  "have",  "from",
    "water", "time", "house", "hand", "night", "river", "small", "long", "went", "found", "never", "under",
    "light", "year", "story", "sea",  "word",  "old",   "said",  "each", "good", "place", "help",  "home"};

bool inside_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; }

} // namespace

Expected<std::string> prompt_text(const Options& options) {
  std::string text;
  if (options.prompt_text.empty()) {
    Random random(static_cast<std::uint64_t>(options.seed) ^ 0x3044u);
    while (text.size() < most_tokenized) {
      if (!text.empty()) text += ' ';
      text += words[random.below(words.size())];
    }
    return text;
  }
  std::ifstream file(options.prompt_text, std::ios::binary);
  if (!file)
    return flag_error("--prompt-text", "there is no file '" + excerpt(options.prompt_text, 200) + "'",
                      "a file with text");
  text.assign(std::istreambuf_iterator<char>(file), {});
  if (text.size() > most_text) text.resize(most_text);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    return flag_error("--prompt-text", "'" + excerpt(options.prompt_text, 200) + "' has no text", "at least a word");
  return text;
}

std::string_view tokenized_part(std::string_view text) {
  if (text.size() <= most_tokenized) return text;
  std::size_t end = most_tokenized;
  while (end > 0 && inside_character(text[end])) --end;
  return text.substr(0, end);
}

Prompts::Prompts(const Options& options, std::string model, std::string text, std::vector<std::int32_t> tokens)
    : options_(&options), model_(std::move(model)), text_(std::move(text)), tokens_(std::move(tokens)) {
  if (!tokens_.empty())
    bytes_per_token_ = static_cast<double>(tokenized_part(text_).size()) / static_cast<double>(tokens_.size());
}

std::string Prompts::text_of(std::size_t index, std::int64_t tokens) const {
  Random random(static_cast<std::uint64_t>(options_->seed) * 0x9e3779b97f4a7c15u + index);
  std::size_t at = random.below(text_.size());
  while (at > 0 && text_[at - 1] != ' ' && text_[at - 1] != '\n') --at; // where a word begins
  const auto bytes = static_cast<std::size_t>(std::max(1.0, static_cast<double>(tokens) * bytes_per_token_));
  std::string piece;
  piece.reserve(bytes + 4);
  while (piece.size() < bytes || inside_character(text_[at])) {
    piece += text_[at];
    at = at + 1 == text_.size() ? 0 : at + 1;
    if (piece.size() > bytes + 4) break; // no UTF-8: the writer replaces what is none
  }
  return piece;
}

Prompts::Request Prompts::request(std::size_t index, const Planned& planned) const {
  const Options& options = *options_;
  Request request;
  JsonWriter json(request.body);
  const std::int64_t prompt = planned.spec.prompt.count();
  json.begin_object().key("model").value(model_);
  if (options.chat()) {
    json.key("messages").begin_array().begin_object().key("role").value("user");
    json.key("content").value(text_of(index, prompt)).end_object().end_array();
  } else if (tokens_.empty()) {
    json.key("prompt").value(text_of(index, prompt));
  } else {
    Random random(static_cast<std::uint64_t>(options.seed) * 0x9e3779b97f4a7c15u + index);
    std::size_t at = random.below(tokens_.size());
    json.key("prompt").begin_array();
    for (std::int64_t i = 0; i < prompt; ++i) {
      json.value(tokens_[at]);
      at = at + 1 == tokens_.size() ? 0 : at + 1;
    }
    json.end_array();
    request.prompt_tokens = prompt;
  }
  json.key("max_tokens").value(planned.spec.output.count()).key("temperature").value(options.temperature);
  json.key("seed").value(options.seed + static_cast<std::int64_t>(index)).key("stream").value(true);
  json.key("stream_options").begin_object().key("include_usage").value(true).end_object();
  if (!options.standard) json.key("ignore_eos").value(true);
  if (planned.spec.priority != 0) json.key("priority").value(std::int64_t{planned.spec.priority});
  if (planned.spec.hints.said().any()) write_hints(json, planned.spec.hints);
  if (options.count_tokens) {
    json.key("logprobs");
    if (options.chat())
      json.value(true);
    else
      json.value(0);
  }
  json.end_object();
  return request;
}

} // namespace loading
