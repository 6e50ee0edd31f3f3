// SPDX-License-Identifier: Apache-2.0
// ByteTokenizer: one token per byte, for models without a tokenizer.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/tokenizer/byte_pair_model.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Tokens 0..255 are the bytes, 256 begins a text and 257 ends it. No spelling in a text is special.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr std::int32_t begin = 256;
  static constexpr std::int32_t end = 257;
  static constexpr std::int32_t tokens = 258;

  ByteTokenizer() : Tokenizer(bytes(), {.begin_token = begin, .end_tokens = {end}, .leading_spaces = 0}) {}

  [[nodiscard]] Expected<std::vector<std::int32_t>> encode(std::string_view text,
                                                           AddSpecial add = AddSpecial::yes) const override {
    if (Status status = check_length(text); !status) return status.error();
    std::vector<std::int32_t> ids;
    ids.reserve(text.size() + 1);
    if (add == AddSpecial::yes) ids.push_back(begin);
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    return ids;
  }

 private:
  static Vocabulary bytes() {
    Vocabulary vocabulary;
    const auto add = [&](std::int32_t id, const std::string& name, const std::string& text, bool special) {
      [[maybe_unused]] const Status added = vocabulary.add(id, name, text, special);
      SLUICE_ASSERT(added.ok(), "each byte once");
    };
    for (std::int32_t id = 0; id < 256; ++id) {
      const auto byte = static_cast<unsigned char>(id);
      add(id, byte_fallback_name(byte), std::string(1, static_cast<char>(byte)), false);
    }
    add(begin, "<begin>", "<begin>", true);
    add(end, "<end>", "<end>", true);
    return vocabulary;
  }
};

} // namespace sluice
