// SPDX-License-Identifier: Apache-2.0
// BytePairModel: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/byte_pair_model.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace sluice {

SLUICE_MODEL_INLINE std::optional<std::string> bytes_of_byte_level(std::string_view name) {
  static constexpr auto bytes = [] { // of each character; -1 for one that represents no byte
    std::array<std::int16_t, 0x144> of{};
    of.fill(-1);
    const auto characters = byte_level_characters();
    for (std::size_t byte = 0; byte < 256; ++byte) of[characters[byte]] = static_cast<std::int16_t>(byte);
    return of;
  }();
  std::string text;
  while (!name.empty()) {
    const Utf8Step step = next_utf8(name);
    if (step.kind != Utf8Kind::whole || step.code >= bytes.size() || bytes[step.code] < 0) return std::nullopt;
    text += static_cast<char>(static_cast<unsigned char>(bytes[step.code]));
    name.remove_prefix(static_cast<std::size_t>(step.bytes));
  }
  return text;
}

SLUICE_MODEL_INLINE std::string byte_level_name(std::string_view text) {
  static constexpr auto characters = byte_level_characters();
  std::string name;
  for (const char byte : text) append_utf8(name, characters[static_cast<unsigned char>(byte)]);
  return name;
}

SLUICE_MODEL_INLINE BytePairMerges::BytePairMerges(std::size_t count) {
  std::size_t slots = 16;
  while (slots < 2 * count) slots *= 2;
  slots_.resize(slots);
}

SLUICE_MODEL_INLINE void BytePairMerges::add(std::int32_t left, std::int32_t right, Merge merge) {
  SLUICE_ASSERT(left >= 0 && right >= 0 && merge.rank >= 0, "non-negative tokens and rank");
  if (2 * (count_ + 1) > slots_.size()) grow();
  Slot& slot = slots_[slot_of(slots_, left, right)];
  count_ += slot.left < 0 ? 1U : 0U;
  slot = {left, right, merge};
}

SLUICE_MODEL_INLINE std::optional<Merge> BytePairMerges::find(std::int32_t left, std::int32_t right) const {
  const Slot& slot = slots_[slot_of(slots_, left, right)];
  if (slot.left < 0) return std::nullopt;
  return slot.merge;
}

SLUICE_MODEL_INLINE void BytePairMerges::join(std::vector<std::int32_t>& tokens, std::size_t first,
                                              Workspace& workspace) const {
  const std::size_t count = tokens.size() - first;
  if (count < 2) return;
  SLUICE_ASSERT(count <= INT32_MAX, "at most INT32_MAX tokens");
  auto& symbols = workspace.symbols;
  auto& queue = workspace.queue;
  symbols.clear();
  queue.clear();
  const auto last = static_cast<std::int32_t>(count) - 1;
  for (std::int32_t i = 0; i <= last; ++i)
    symbols.push_back({tokens[first + static_cast<std::size_t>(i)], i - 1, i < last ? i + 1 : -1, true});
  const auto symbol = [&](std::int32_t at) -> Workspace::Symbol& { return symbols[static_cast<std::size_t>(at)]; };
  const auto merge_at = [&](std::int32_t left) -> std::optional<Merge> {
    if (left < 0 || !symbol(left).there || symbol(left).after < 0) return std::nullopt;
    return find(symbol(left).token, symbol(symbol(left).after).token);
  };
  for (std::int32_t i = 0; i < last; ++i)
    if (const auto merge = merge_at(i)) queue.push_back({merge->rank, i});
  std::make_heap(queue.begin(), queue.end(), std::greater<>{});
  const auto propose = [&](std::int32_t left) {
    const auto merge = merge_at(left);
    if (!merge) return;
    queue.push_back({merge->rank, left});
    std::push_heap(queue.begin(), queue.end(), std::greater<>{});
  };

  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>{});
    const Workspace::Candidate best = queue.back();
    queue.pop_back();
    const auto merge = merge_at(best.left);
    if (!merge || merge->rank != best.rank) continue;
    Workspace::Symbol& left = symbol(best.left);
    Workspace::Symbol& right = symbol(left.after);
    left.token = merge->result;
    right.there = false;
    left.after = right.after;
    if (left.after >= 0) symbol(left.after).before = best.left;
    propose(left.before);
    propose(best.left);
  }

  std::size_t out = first;
  for (std::int32_t i = 0; i >= 0; i = symbol(i).after) tokens[out++] = symbol(i).token;
  tokens.resize(out);
}

SLUICE_MODEL_INLINE std::size_t BytePairMerges::slot_of(const std::vector<Slot>& slots, std::int32_t left,
                                                        std::int32_t right) {
  const std::uint64_t key =
      (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) | static_cast<std::uint32_t>(right);
  const std::uint64_t mixed = (key ^ (key >> 29U)) * 0x9E3779B97F4A7C15U;
  std::size_t at = static_cast<std::size_t>(mixed >> 20U) & (slots.size() - 1);
  while (slots[at].left >= 0 && (slots[at].left != left || slots[at].right != right))
    at = (at + 1) & (slots.size() - 1);
  return at;
}

SLUICE_MODEL_INLINE void BytePairMerges::grow() {
  std::vector<Slot> larger(2 * slots_.size());
  for (const Slot& slot : slots_)
    if (slot.left >= 0) larger[slot_of(larger, slot.left, slot.right)] = slot;
  slots_.swap(larger);
}

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
