// SPDX-License-Identifier: Apache-2.0
// ByteTokenizer: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/tokenizer/byte_pair_model.hpp"
#include "sluice/model/tokenizer/bytes.hpp"

#include <string>

namespace sluice {

SLUICE_MODEL_INLINE Expected<std::vector<std::int32_t>> ByteTokenizer::encode(std::string_view text,
                                                                              AddSpecial add) const {
  if (Status status = check_length(text); !status) return status.error();
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() + 1);
  if (add == AddSpecial::yes) ids.push_back(begin);
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

SLUICE_MODEL_INLINE Vocabulary ByteTokenizer::bytes() {
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

} // namespace sluice
