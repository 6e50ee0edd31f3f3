// SPDX-License-Identifier: Apache-2.0
// BytePairModel: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/byte_level.hpp"
#include "sluice/model/tokenizer/byte_pair_model.hpp"

#include <cstddef>

namespace sluice {

SLUICE_MODEL_INLINE std::string byte_fallback_name(unsigned char byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return std::string{"<0x"} + digits[byte / 16U] + digits[byte % 16U] + '>';
}

SLUICE_MODEL_INLINE Expected<BytePairModel> BytePairModel::make(const Vocabulary& vocabulary, BytePairMerges merges,
                                                                BytePairOptions options) {
  BytePairModel model(std::move(merges), options);
  std::string missing;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<unsigned char>(byte);
    const std::string name =
        options.byte_level ? byte_level_name(std::string(1, static_cast<char>(value))) : byte_fallback_name(value);
    const auto id = vocabulary.id_of(name);
    model.of_byte_[byte] = id.value_or(-1);
    if (!id && missing.empty()) missing = name;
  }
  const bool bytes_needed = options.byte_level || options.byte_fallback;
  if (options.unknown < 0 && (!bytes_needed || !missing.empty())) {
    return Error{ErrorCode::bad_input,
                 {},
                 bytes_needed ? "there is neither the token '" + missing + "' nor an unk_token"
                              : "there is neither byte_fallback nor an unk_token",
                 "a token for every text"};
  }
  return model;
}

SLUICE_MODEL_INLINE void BytePairModel::encode(std::string_view piece, const Vocabulary& vocabulary,
                                               std::vector<std::int32_t>& tokens,
                                               BytePairMerges::Workspace& workspace) const {
  if (options_.whole_first) {
    if (const auto whole = vocabulary.id_of(options_.byte_level ? byte_level_name(piece) : std::string(piece))) {
      tokens.push_back(*whole);
      return;
    }
  }
  const std::size_t first = tokens.size();
  bool after_unknown = false; // the last symbol is the unknown token, which may absorb the next one
  const auto put_unknown = [&] {
    if (!(after_unknown && options_.fuse_unknown)) tokens.push_back(options_.unknown);
    after_unknown = true;
  };
  while (!piece.empty()) {
    const Utf8Step step = next_utf8(piece);
    const bool whole = !options_.byte_level && step.kind == Utf8Kind::whole;
    const std::string_view symbol = piece.substr(0, whole ? static_cast<std::size_t>(step.bytes) : 1);
    piece.remove_prefix(symbol.size());
    if (whole) {
      if (const auto id = vocabulary.id_of(symbol)) {
        tokens.push_back(*id);
        after_unknown = false;
        continue;
      }
    }
    if (!(options_.byte_level || options_.byte_fallback) || !has_all(symbol)) {
      put_unknown();
      continue;
    }
    for (const char byte : symbol) tokens.push_back(of_byte_[static_cast<unsigned char>(byte)]);
    after_unknown = false;
  }
  merges_.join(tokens, first, workspace);
}

SLUICE_MODEL_INLINE bool BytePairModel::has_all(std::string_view bytes) const {
  for (const char byte : bytes)
    if (of_byte_[static_cast<unsigned char>(byte)] < 0) return false;
  return true;
}

} // namespace sluice
