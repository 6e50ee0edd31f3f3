// SPDX-License-Identifier: Apache-2.0
// Batch: what an iteration computes: a part for each claim, and the rows of all parts.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"
#include "sluice/view/view.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Where the plan in force wants a layer block.
enum class KvPlace : std::uint8_t { device, host, nowhere };

/// `head`: so many of the oldest blocks are those that the sets of the row's holding speak of.
[[nodiscard]] inline KvPlace kv_place(const RequestRow& row, std::int64_t head, int layer, std::int64_t block) {
  if (block >= head) return KvPlace::device;
  return row.holding.host.contains(layer)      ? KvPlace::host
         : row.holding.nowhere.contains(layer) ? KvPlace::nowhere
                                               : KvPlace::device;
}

/// What one claim computes in an iteration.
struct Part {
  Slot slot{};
  const RequestRow* row = nullptr;
  std::int64_t held = 0;    ///< tokens that have KV
  std::int64_t fresh = 0;   ///< tokens that get it
  std::int64_t head = 0;    ///< its oldest blocks, those that the sets of its holding speak of
  std::int64_t blocks = 0;  ///< after this iteration
  std::int64_t rebuilt = 0; ///< oldest tokens that are passed once more
  int last_rebuilt = -1;    ///< the last layer for which they are
  int first_row = 0, rebuilt_row = 0;
  bool samples = false;
  bool whole = false; ///< was preempted, and comes back as a whole before the first layer

  [[nodiscard]] std::int64_t total() const { return held + fresh; }
  /// Whether the layer reads all of the claim's KV.
  [[nodiscard]] bool uses(int layer) const { return fresh > 0 || layer <= last_rebuilt; }
  [[nodiscard]] KvPlace place(int layer, std::int64_t block) const { return kv_place(*row, head, layer, block); }
};

/// An iteration's parts, and how their tokens lie in the rows of the model's activations: all new tokens, then those
/// that are passed again, the latest to stop first.
class Batch {
 public:
  [[nodiscard]] std::span<const Part> parts() const { return parts_; }
  [[nodiscard]] std::size_t size() const { return parts_.size(); }
  [[nodiscard]] const Part& operator[](std::size_t i) const { return parts_[i]; }
  [[nodiscard]] std::span<const std::int32_t> tokens() const { return tokens_; }
  [[nodiscard]] std::span<const std::int32_t> positions() const { return positions_; }

  void clear() { parts_.clear(); }
  void add(const Part& part) { parts_.push_back(part); }

  /// Lays out the rows. `tokens_of(part)`: the sequence's tokens; `refuse(part)`: the buffers have no rows for its
  /// tokens that are passed again, of which there are at most `most_rebuilt`.
  template <class TokensOf, class Refuse>
  void lay_out_rows(std::int64_t most_rebuilt, const TokensOf& tokens_of, const Refuse& refuse) {
    std::int64_t again = 0;
    for (Part& part : parts_) {
      if (again + part.rebuilt > most_rebuilt) {
        refuse(part);
        part.rebuilt = 0;
        part.last_rebuilt = -1;
      }
      again += part.rebuilt;
    }
    tokens_.clear();
    positions_.clear();
    rebuilding_.clear();
    const auto add = [&](const Part& part, std::int64_t from, std::int64_t count) {
      const std::span<const std::int32_t> tokens = tokens_of(part);
      SLUICE_ASSERT(from + count <= static_cast<std::int64_t>(tokens.size()),
                    "a request has the tokens that it claims");
      for (std::int64_t i = from; i < from + count; ++i) {
        tokens_.push_back(tokens[static_cast<std::size_t>(i)]);
        positions_.push_back(static_cast<std::int32_t>(i));
      }
    };
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      part.first_row = static_cast<int>(tokens_.size());
      add(part, part.held, part.fresh);
      if (part.rebuilt > 0) rebuilding_.push_back(i);
    }
    fresh_rows_ = static_cast<int>(tokens_.size());
    // By the part's number where they stop together: a sort that keeps their order would allocate.
    std::sort(rebuilding_.begin(), rebuilding_.end(), [this](std::size_t a, std::size_t b) {
      const int stops = parts_[a].last_rebuilt, other = parts_[b].last_rebuilt;
      return stops != other ? stops > other : a < b;
    });
    for (const std::size_t i : rebuilding_) {
      parts_[i].rebuilt_row = static_cast<int>(tokens_.size());
      add(parts_[i], 0, parts_[i].rebuilt);
    }
  }

  [[nodiscard]] int fresh_rows() const { return fresh_rows_; }
  /// Rows that pass through a layer to the next, from 0 on.
  [[nodiscard]] int rows(int layer) const {
    int rows = fresh_rows_;
    for (const std::size_t i : rebuilding_)
      if (parts_[i].last_rebuilt > layer) rows += static_cast<int>(parts_[i].rebuilt);
    return rows;
  }
  /// Rows behind those, of which the layer is to make K and V and nothing else.
  [[nodiscard]] int stored_rows(int layer) const {
    int rows = 0;
    for (const std::size_t i : rebuilding_)
      if (parts_[i].last_rebuilt == layer) rows += static_cast<int>(parts_[i].rebuilt);
    return rows;
  }

 private:
  std::vector<Part> parts_;
  std::vector<std::int32_t> tokens_, positions_; ///< of each row
  std::vector<std::size_t> rebuilding_;          ///< parts, whose last rebuilt layer is the latest first
  int fresh_rows_ = 0;
};

} // namespace sluice
