// SPDX-License-Identifier: Apache-2.0
// Batch: what an iteration computes: a part for each claim, and the rows of all parts.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/view/view.hpp"

#include <algorithm>
#include <array>
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
  LayerSet made;            ///< layers that make K and V of them, which are nowhere
  LayerSet passed;          ///< layers that they pass whole, for the sake of layers above
  LayerSet restored;        ///< of these, the layers that begin with their hidden states, kept on the host
  int first_row = 0, rebuilt_row = 0;
  bool samples = false;
  bool whole = false; ///< was preempted, and comes back as a whole before the first layer

  [[nodiscard]] std::int64_t total() const { return held + fresh; }
  /// Whether the layer computes with the tokens that are passed once more.
  [[nodiscard]] bool rebuilds(int layer) const { return made.contains(layer) || passed.contains(layer); }
  /// Whether the layer reads all of the claim's KV.
  [[nodiscard]] bool uses(int layer) const { return fresh > 0 || rebuilds(layer); }
  void rebuild_nothing() {
    rebuilt = 0;
    made = passed = restored = {};
  }
  [[nodiscard]] KvPlace place(int layer, std::int64_t block) const { return kv_place(*row, head, layer, block); }
};

/// An iteration's parts, and how their tokens lie in the rows of the model's activations: all new tokens, then those
/// that are passed again, the latest to stop first. A layer computes the rows up to the last that it needs. Those
/// before which it does not need are computed for nothing, and do no harm: they have stopped, or begin anew at a later
/// layer with hidden states of the host. (Where prefixes are restored, layers need different ones; where they pass from
/// the first layer on there is no such row.)
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
        part.rebuild_nothing();
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
      const Part &one = parts_[a], &other = parts_[b];
      const std::array stops{one.passed.highest(), one.made.highest()};
      const std::array others{other.passed.highest(), other.made.highest()};
      return stops != others ? stops > others : a < b;
    });
    for (const std::size_t i : rebuilding_) {
      parts_[i].rebuilt_row = static_cast<int>(tokens_.size());
      add(parts_[i], 0, parts_[i].rebuilt);
    }
  }

  [[nodiscard]] int fresh_rows() const { return fresh_rows_; }
  /// Rows that pass through a layer to the next, from 0 on.
  [[nodiscard]] int rows(int layer) const {
    return end_of_rows([layer](const Part& part) { return part.passed.contains(layer); });
  }
  /// Rows behind those, of which the layer is to make K and V and nothing else.
  [[nodiscard]] int stored_rows(int layer) const {
    return end_of_rows([layer](const Part& part) { return part.rebuilds(layer); }) - rows(layer);
  }
  /// Whether any part's prefix begins anew at the layer.
  [[nodiscard]] bool restores(int layer) const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [layer](const Part& part) { return part.restored.contains(layer); });
  }

 private:
  /// The row behind the last that `needed(part)` says of.
  template <class Needed>
  [[nodiscard]] int end_of_rows(const Needed& needed) const {
    for (std::size_t i = rebuilding_.size(); i-- > 0;) {
      const Part& part = parts_[rebuilding_[i]];
      if (needed(part)) return part.rebuilt_row + static_cast<int>(part.rebuilt);
    }
    return fresh_rows_;
  }

  std::vector<Part> parts_;
  std::vector<std::int32_t> tokens_, positions_; ///< of each row
  std::vector<std::size_t> rebuilding_;          ///< parts, that pass the most layers first
  int fresh_rows_ = 0;
};

} // namespace sluice
