// SPDX-License-Identifier: Apache-2.0
// KvGroups: what each layer keeps of a request, for models whose layers keep different things.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace sluice {

/// What a layer's entries are. Which tokens are kept follows from `KvRule`, not from the kind; the kind says what the
/// entries cost to read and whether they can be split by tokens.
enum class KvKind : std::uint8_t {
  full,       ///< K and V of every token
  latent,     ///< one compressed vector per token, from which K and V are computed (multi-head latent attention)
  indexer,    ///< keys of a sparse attention's indexer, beside the layer's full or latent entries
  sliding,    ///< K and V of the last `window` tokens
  chunked,    ///< K and V since the last multiple of `window` tokens
  compressed, ///< one entry per `stride` tokens
  state       ///< a recurrent state of fixed size (Mamba, gated delta rule), written by every step
};

/// The short name: "full", "latent", ...
constexpr const char* name_of(KvKind kind) {
  constexpr const char* names[] = {"full", "latent", "indexer", "sliding", "chunked", "compressed", "state"};
  return names[static_cast<std::size_t>(kind)];
}

/// What one layer keeps of one request. One formula covers every kind: of a request of `total` blocks a layer keeps the
/// blocks [total - min(total, keep), total); `KvBlocks` has that form, this one is exact in tokens.
struct KvRule {
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

  KvKind kind = KvKind::full;
  std::int64_t entry = 0;          ///< bytes of one entry; of a state, all of its bytes
  std::int64_t stride = 1;         ///< tokens per entry
  std::int64_t window = unlimited; ///< tokens that are kept at most
  std::int64_t picked = unlimited; ///< entries that a token attends to at most (sparse attention's top k)

  friend constexpr bool operator==(const KvRule&, const KvRule&) = default;

  /// Whether the bytes grow with every token, without end.
  [[nodiscard]] constexpr bool grows() const { return kind != KvKind::state && window == unlimited; }
  /// Bytes after `tokens` tokens. Entries of an incomplete stride are part of the layer's state. A chunked layer is
  /// counted like a window, by the most that it keeps.
  [[nodiscard]] constexpr Bytes bytes(Tokens tokens) const {
    if (kind == KvKind::state) return Bytes{tokens > Tokens{0} ? entry : 0};
    return Bytes{entry * (std::min(tokens.count(), window) / stride)};
  }
  /// Tokens whose entries a token attends to at most; `unlimited`: all.
  [[nodiscard]] constexpr std::int64_t reach() const {
    return std::min(window, picked == unlimited ? unlimited : picked * stride);
  }
  /// Bytes of one block of `block` tokens; of a state, which belongs to the newest block, all of its bytes.
  [[nodiscard]] constexpr std::int64_t block_bytes(Tokens block) const {
    return kind == KvKind::state ? entry : entry * (block.count() / stride);
  }
  /// Blocks of `block` tokens before a block's end that tokens after it read at most.
  [[nodiscard]] constexpr std::int64_t reads_back(Tokens block) const {
    if (window == unlimited) return unlimited;
    return (window - 1 + block.count() - 1) / block.count(); // a token reads itself
  }
  /// Blocks of `block` tokens that are kept at most. A window that does not end at a block's end touches one more.
  [[nodiscard]] constexpr std::int64_t keep(Tokens block) const {
    if (kind == KvKind::state) return 1;
    if (window == unlimited) return unlimited;
    const std::int64_t whole = (window + block.count() - 1) / block.count();
    return kind == KvKind::chunked ? whole : whole + 1;
  }
};

/// Layers with one rule. A layer may be in several groups: a latent and its indexer's keys.
struct KvGroup {
  LayerSet layers;
  KvRule rule;
  friend constexpr bool operator==(const KvGroup&, const KvGroup&) = default;
};

/// All groups of a model. No allocation: an engine keeps this in its geometry and asks it in every step.
class KvGroups {
 public:
  /// Above every known model (DeepSeek-V4 has six).
  static constexpr int most = 8;

  /// Adds `layer` to the group of `rule`. False if that would be one group too many.
  constexpr bool add(int layer, const KvRule& rule) {
    for (int g = 0; g < count_; ++g)
      if (at(g).rule == rule && !at(g).layers.contains(layer)) return at(g).layers.insert(layer), true;
    if (count_ == most) return false;
    at(count_) = {{}, rule};
    at(count_++).layers.insert(layer);
    return true;
  }

  [[nodiscard]] constexpr std::span<const KvGroup> groups() const {
    return {groups_.data(), static_cast<std::size_t>(count_)};
  }
  /// Whether each of `layers` layers keeps the same of every token: the only KV that one size per layer describes.
  [[nodiscard]] constexpr bool uniform(int layers) const {
    return count_ == 1 && groups_[0].rule.grows() && groups_[0].layers == LayerSet::all(layers);
  }
  /// The layers whose part grows with every token. Distances and intervals between layers are counted over these.
  [[nodiscard]] constexpr LayerSet growing() const {
    LayerSet set;
    for (const KvGroup& group : groups())
      if (group.rule.grows()) set = set | group.layers;
    return set;
  }

  /// Bytes of a request after `tokens` tokens, in all layers.
  [[nodiscard]] constexpr Bytes bytes(Tokens tokens) const {
    Bytes sum{0};
    for (const KvGroup& group : groups()) sum = sum + group.rule.bytes(tokens) * group.layers.count();
    return sum;
  }
  /// Bytes that stop growing: windows that are full, and states. The rest of `bytes` is proportional to the tokens.
  [[nodiscard]] constexpr Bytes fixed_bytes() const {
    Bytes sum{0};
    for (const KvGroup& group : groups())
      if (!group.rule.grows()) sum = sum + group.rule.bytes(Tokens{KvRule::unlimited}) * group.layers.count();
    return sum;
  }
  /// Bytes of each further token, where every window is full. A compressed entry counts for each of its tokens.
  [[nodiscard]] constexpr double growth_bytes_per_token() const {
    double sum = 0;
    for (const KvGroup& group : groups())
      if (group.rule.grows())
        sum += static_cast<double>(group.rule.entry) / static_cast<double>(group.rule.stride) * group.layers.count();
    return sum;
  }

 private:
  constexpr KvGroup& at(int group) { return groups_[static_cast<std::size_t>(group)]; }

  std::array<KvGroup, most> groups_{};
  int count_ = 0;
};

/// The contexts up to which layers read a request's KV, each once: windows, and the top k of sparse attention.
class ReadLimits {
 public:
  /// Above every known model.
  static constexpr int most = 4;

  constexpr ReadLimits() = default;
  /// The first `most` of the groups' limits.
  explicit constexpr ReadLimits(const KvGroups& kv) {
    for (const KvGroup& group : kv.groups())
      if (group.rule.kind != KvKind::state && group.rule.reach() != KvRule::unlimited && find(group.rule) < 0 &&
          count_ < most)
        limits_[static_cast<std::size_t>(count_++)] = Tokens{group.rule.reach()};
  }
  /// The limits.
  [[nodiscard]] constexpr std::span<const Tokens> limits() const {
    return {limits_.data(), static_cast<std::size_t>(count_)};
  }
  /// The number of the rule's limit; -1 if it has none.
  [[nodiscard]] constexpr int find(const KvRule& rule) const {
    for (int i = 0; i < count_; ++i)
      if (limits_[static_cast<std::size_t>(i)] == Tokens{rule.reach()}) return i;
    return -1;
  }

 private:
  std::array<Tokens, most> limits_{};
  int count_ = 0;
};

/// A group of layers, in blocks.
struct KvPart {
  LayerSet layers{};      ///< the group's layers
  std::int64_t keep = 0;  ///< blocks of a request that are kept at most: the newest ones
  std::int64_t units = 0; ///< quanta of one block, or of one entry
  std::int64_t step = 1;  ///< blocks of one entry; 1: a block has one or more
  bool state = false;     ///< one entry stands for all tokens before it
  std::int64_t back = 0;  ///< blocks before a block's end that later tokens read at most
  std::int64_t chunk = 0; ///< blocks of a chunk; 0: no chunks, or chunks that do not end at a block's end

  /// Quanta of a block, or of an entry, in all layers of the group.
  [[nodiscard]] constexpr std::int64_t size() const { return units * layers.count(); }
  /// Whether every block is kept.
  [[nodiscard]] constexpr bool grows() const { return keep == KvRule::unlimited; }
  /// The first of a request's first `blocks` blocks that its later tokens read. Of a state they read what it was after
  /// these blocks.
  [[nodiscard]] constexpr std::int64_t first_read(std::int64_t blocks) const {
    return chunk > 0 ? blocks - blocks % chunk : blocks - std::min(blocks, back);
  }
  /// The entries [first, last) that a request of `blocks` blocks keeps.
  [[nodiscard]] constexpr std::pair<std::int64_t, std::int64_t> kept(std::int64_t blocks) const {
    return {blocks / step - std::min(blocks, keep) / step, blocks / step};
  }
};

/// KvGroups counted in blocks of one length, in whole quanta: the greatest common divisor of the groups' blocks. A
/// uniform model's quantum is its layer block, so that its counts are numbers of layer blocks.
///
/// Where entries stand for more tokens than a block has, a block has an entry or none: the one that it completes.
///
/// Rejected: counting bytes, which changes every figure of a uniform model that is no power of two; and one pool per
/// group, of which one is exhausted while another has room.
class KvBlocks {
 public:
  /// No groups: what uses this counts one quantum for each block of each layer.
  constexpr KvBlocks() = default;
  /// `block` `fits(kv, block)`.
  constexpr KvBlocks(const KvGroups& kv, Tokens block) {
    SLUICE_ASSERT(fits(kv, block), "a block that holds whole entries, or whole blocks to an entry");
    const auto step_bytes = [block](const KvRule& rule) {
      return rule.stride > block.count() ? rule.entry : rule.block_bytes(block);
    };
    for (const KvGroup& group : kv.groups()) quantum_ = std::gcd(quantum_, step_bytes(group.rule));
    for (const KvGroup& group : kv.groups()) {
      const KvRule& rule = group.rule;
      const bool chunks = rule.kind == KvKind::chunked && rule.window % block.count() == 0;
      parts_[static_cast<std::size_t>(count_++)] = {group.layers,
                                                    rule.keep(block),
                                                    step_bytes(rule) / quantum_,
                                                    std::max<std::int64_t>(1, rule.stride / block.count()),
                                                    rule.kind == KvKind::state,
                                                    rule.reads_back(block),
                                                    chunks ? rule.window / block.count() : 0};
    }
    find_movable();
  }
  /// Whether a block of `block` tokens and an entry of each group contain a whole number of the other.
  [[nodiscard]] static constexpr bool fits(const KvGroups& kv, Tokens block) {
    for (const KvGroup& group : kv.groups())
      if (block.count() % group.rule.stride != 0 && group.rule.stride % block.count() != 0) return false;
    return true;
  }

  /// Whether there are no groups: all layers are alike.
  [[nodiscard]] constexpr bool empty() const { return count_ == 0; }
  /// Bytes of one quantum.
  [[nodiscard]] constexpr Bytes quantum() const { return Bytes{quantum_}; }

  // Both sums are calls: inlined where room is counted, they cost engines of equal layers 23 % of a step that plans.

  /// Quanta of the blocks [first, last) of a request of `total` blocks, in the layers `held`.
  [[nodiscard, gnu::noinline]] constexpr std::int64_t room(std::int64_t first, std::int64_t last, std::int64_t total,
                                                           LayerSet held) const {
    std::int64_t sum = 0;
    for (const KvPart& part : parts()) {
      const std::int64_t begin = std::max(first, total - std::min(total, part.keep));
      sum +=
          std::max<std::int64_t>(0, last / part.step - begin / part.step) * part.units * (part.layers & held).count();
    }
    return sum;
  }
  /// Quanta of a request of `total` blocks in all layers. Grows with `total`, ever more slowly, and by at most
  /// `room(1)` for each block unless entries stand for several blocks.
  [[nodiscard, gnu::noinline]] constexpr std::int64_t room(std::int64_t total) const {
    std::int64_t sum = 0;
    for (const KvPart& part : parts()) sum += std::min(total, part.keep) / part.step * part.units * part.layers.count();
    return sum;
  }
  /// Whether a block of each group is one quantum: what a machine with blocks of one size stores.
  [[nodiscard]] constexpr bool same_blocks() const {
    return std::all_of(parts_.begin(), parts_.begin() + count_,
                       [](const KvPart& part) { return part.units == 1 && part.step == 1; });
  }
  /// Runs of memory that a token block has: one in each layer of each group.
  [[nodiscard]] constexpr std::int64_t runs() const {
    std::int64_t sum = 0;
    for (const KvPart& part : parts()) sum += part.layers.count();
    return sum;
  }

  /// The layers that placements may move to the host: each keeps something of every token and nothing else, all of them
  /// the same number of quanta. If such layers have several sizes, those of the size that grows the most in all. So
  /// each further layer frees as much as the one before, and one number says what each of them moves.
  ///
  /// Windows and states stay on the device: they stop growing, and a state would cross the link both ways in every
  /// step.
  [[nodiscard]] constexpr LayerSet movable() const { return movable_; }
  /// Quanta of a block of one of these layers; 0 if there is none.
  [[nodiscard]] constexpr std::int64_t movable_units() const { return movable_units_; }

  /// The groups.
  [[nodiscard]] constexpr std::span<const KvPart> parts() const {
    return {parts_.data(), static_cast<std::size_t>(count_)};
  }

 private:
  constexpr void find_movable() {
    LayerSet rest, bounded;
    std::array<std::int64_t, max_layers> units{}; // of each layer's block
    for (const KvPart& part : parts()) {
      LayerSet& set = part.keep == KvRule::unlimited && part.step == 1 ? rest : bounded;
      set = set | part.layers;
      part.layers.for_each([&](int layer) { units[static_cast<std::size_t>(layer)] += part.units; });
    }
    rest = rest - bounded;
    while (!rest.empty()) {
      const std::int64_t each = units[static_cast<std::size_t>(rest.lowest())];
      LayerSet same;
      rest.for_each([&](int layer) {
        if (units[static_cast<std::size_t>(layer)] == each) same.insert(layer);
      });
      if (each * same.count() > movable_units_ * movable_.count()) {
        movable_ = same;
        movable_units_ = each;
      }
      rest = rest - same;
    }
  }

  std::array<KvPart, KvGroups::most> parts_{};
  int count_ = 0;
  std::int64_t quantum_ = 0;
  LayerSet movable_{};
  std::int64_t movable_units_ = 0;
};

/// What an engine knows of layers that keep different amounts of KV.
struct KvLayers {
  KvBlocks blocks{};     ///< what they keep
  ReadLimits reads{};    ///< how far they read
  LayerSet streamable{}; ///< whose weights may stream: all of one size (`ModelDescription::streamable`)
};

} // namespace sluice
