// SPDX-License-Identifier: Apache-2.0
// Chunk: what one event of a completion's stream says, read without a document in memory.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loading {

struct Usage {
  std::int64_t prompt = 0, completion = 0, total = 0;
};

struct Chunk {
  int choices = 0;           ///< entries of "choices"
  bool has_choices = false;  ///< there is such an array, if an empty one
  std::size_t text = 0;      ///< bytes of text, of all choices
  std::int64_t tokens = 0;   ///< entries of "logprobs"
  std::string finish_reason; ///< empty: null, or none
  std::optional<Usage> usage;
  std::optional<std::string> error; ///< its message
};

namespace detail {

/// Follows the few fields that matter by the place in the document; the rest is checked by the parser and passed over.
/// Rejected: nlohmann's document, which costs several times as much as the rest of reading a token.
class ChunkReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit ChunkReader(Chunk& into) : into_(&into) {}

  bool null() override { return true; }
  bool boolean(bool /*flag*/) override { return true; }
  bool number_integer(number_integer_t number) override { return whole(number); }
  bool number_unsigned(number_unsigned_t number) override { return whole(static_cast<std::int64_t>(number)); }
  bool number_float(number_float_t /*number*/, const string_t& /*text*/) override { return true; }
  bool binary(binary_t& /*bytes*/) override { return true; }

  bool string(string_t& text) override {
    const Place place = here();
    if (place == Place::choice && key_ == "text") into_->text += text.size();
    if (place == Place::choice && key_ == "finish_reason") into_->finish_reason = text;
    if (place == Place::delta && (key_ == "content" || key_ == "reasoning_content" || key_ == "reasoning"))
      into_->text += text.size();
    if (place == Place::tokens) ++into_->tokens;
    if (place == Place::error && key_ == "message") into_->error = text;
    if (place == Place::root && key_ == "error") into_->error = text; // some servers have the message there
    return true;
  }
  bool key(string_t& name) override {
    key_ = name;
    return true;
  }
  bool start_object(std::size_t /*elements*/) override {
    Place next = Place::other;
    switch (here()) {
    case Place::none:
      next = Place::root;
      break;
    case Place::root:
      if (key_ == "usage") {
        next = Place::usage;
        into_->usage.emplace();
      }
      if (key_ == "error") {
        next = Place::error;
        into_->error.emplace();
      }
      break;
    case Place::choices:
      next = Place::choice;
      ++into_->choices;
      break;
    case Place::choice:
      if (key_ == "delta" || key_ == "message") next = Place::delta;
      if (key_ == "logprobs") next = Place::logprobs;
      break;
    case Place::tokens:
      ++into_->tokens;
      break;
    default:
      break;
    }
    places_.push_back(next);
    return true;
  }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t /*elements*/) override {
    Place next = Place::other;
    if (here() == Place::root && key_ == "choices") {
      next = Place::choices;
      into_->has_choices = true;
    }
    if (here() == Place::logprobs && (key_ == "content" || key_ == "tokens")) next = Place::tokens;
    places_.push_back(next);
    return true;
  }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*what*/) override {
    return false;
  }

 private:
  enum class Place : std::uint8_t { none, root, choices, choice, delta, logprobs, tokens, usage, error, other };

  [[nodiscard]] Place here() const { return places_.empty() ? Place::none : places_.back(); }
  bool leave() {
    places_.pop_back();
    return true;
  }
  bool whole(std::int64_t number) {
    if (here() != Place::usage) return true;
    if (key_ == "prompt_tokens") into_->usage->prompt = number;
    if (key_ == "completion_tokens") into_->usage->completion = number;
    if (key_ == "total_tokens") into_->usage->total = number;
    return true;
  }

  Chunk* into_;
  std::string key_;
  std::vector<Place> places_;
};

} // namespace detail

/// Reads an event's data, or a whole answer; nothing where that is no JSON object, or no UTF-8.
[[nodiscard]] inline std::optional<Chunk> read_chunk(std::string_view json) {
  if (json.empty() || json.front() != '{') return std::nullopt;
  Chunk chunk;
  detail::ChunkReader reader(chunk);
  if (!nlohmann::json::sax_parse(json, &reader)) return std::nullopt;
  return chunk;
}

} // namespace loading
