// SPDX-License-Identifier: Apache-2.0
// HostTier: KV of ended requests that stays on the host, where later requests with the same beginning find it.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/fnv.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/records/record.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/memory/tier_store.hpp"
#include "sluice/workload/content.hpp"
#include "sluice/world/host_tier/host_tier_counts.hpp"
#include "sluice/world/machine/kv_store.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Adds to the keys of the first full blocks of `tokens` those of the others. A block's key covers its tokens and all
/// before them, and `salt`: requests with other salts find none of each other's blocks. Two chains of 64 bits with
/// different constants (splitmix64's finaliser), so that no two blocks share a key by chance.
inline void extend_prefix_keys(std::span<const std::int32_t> tokens, std::int64_t block_tokens, std::uint64_t salt,
                               std::vector<RecordKey>& keys) {
  const auto mix = [](std::uint64_t before, std::uint64_t value, std::uint64_t odd) {
    std::uint64_t z = (before ^ value) * odd + 0x632be59bd9b4e019U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  };
  constexpr std::uint64_t one = 0x9e3779b97f4a7c15U, other = 0xd1342543de82ef95U;
  RecordKey key = keys.empty() ? RecordKey{mix(0, salt, one), mix(1, salt, other)} : keys.back();
  const auto each = static_cast<std::size_t>(block_tokens);
  for (std::size_t at = keys.size() * each; at + each <= tokens.size(); at += each) {
    for (const std::int32_t token : tokens.subspan(at, each))
      key = {mix(key.high, static_cast<std::uint32_t>(token), one),
             mix(key.low, static_cast<std::uint32_t>(token), other)};
    keys.push_back(key);
  }
}
/// Writes the keys of all full blocks.
inline void prefix_keys(std::span<const std::int32_t> tokens, std::int64_t block_tokens, std::uint64_t salt,
                        std::vector<RecordKey>& keys) {
  keys.clear();
  extend_prefix_keys(tokens, block_tokens, salt, keys);
}
/// The key by which an engine knows a block: half as long, so a machine compares the RecordKey, too.
[[nodiscard]] inline BlockKey block_key(const RecordKey& key) { return next_key(BlockKey{key.high}, key.low); }

/// Token blocks by key; each is a host block per layer. The blocks are full, so nothing ever writes to them, and a
/// request that finds one shares it with the tier and with other requests (KvStore counts the holders): there is no
/// copy on write, because there are no writes. Which block leaves a full tier is TierStore's order, as in a simulation;
/// pinned blocks stay.
///
/// Only numbers of blocks, as everywhere in a machine. Not synchronised: the schedule's mutex guards it.
class HostTier {
 public:
  /// `room`: layer blocks that the host has for the tier, besides those that plans place there. `pin_share`: how much
  /// of the tier the sessions of one salt may pin; at least a block.
  HostTier(KvStore& store, int layers, LayerBlocks room, Replacement replacement, double pin_share)
      : store_(&store), layers_(layers), order_(TokenBlocks{room.count() / layers}, replacement) {
    counts_.capacity = room.count() / layers;
    most_pinned_ =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(pin_share * static_cast<double>(counts_.capacity)));
    counts_.block_bytes = store.shape().bytes().count() * layers;
    tell_idle();
  }

  [[nodiscard]] bool exists() const { return counts_.capacity > 0; }
  [[nodiscard]] HostTierCounts& counts() { return counts_; }
  [[nodiscard]] const HostTierCounts& counts() const { return counts_; }

  [[nodiscard]] bool holds(const RecordKey& key) const {
    const auto found = entries_.find(block_key(key));
    return found != entries_.end() && found->second.key == key;
  }
  /// How many of `keys`, from the first on, the tier has.
  [[nodiscard]] std::size_t find(std::span<const RecordKey> keys) const {
    std::size_t found = 0;
    while (found < keys.size() && holds(keys[found])) ++found;
    return found;
  }
  /// The host block of each layer.
  [[nodiscard]] std::span<const std::int32_t> blocks(const RecordKey& key) const { return at(key).host; }
  /// A request uses these blocks.
  void touch(std::span<const RecordKey> keys) { order_.touch(block_keys(keys)); }
  /// The same request, which ends, had these blocks: they are as recent as those that follow them, and worth as much,
  /// but not used once more.
  void touch_again(std::span<const RecordKey> keys, double worth) {
    if (order_.replacement() != Replacement::least_frequent)
      order_.touch(block_keys(keys), [worth](std::size_t) { return worth; });
  }
  /// A session, or a request without one, has had these blocks; those that are not held are passed over.
  void note_user(std::span<const RecordKey> keys, std::uint64_t user) {
    for (const RecordKey& key : keys)
      if (const auto found = entries_.find(block_key(key)); found != entries_.end()) {
        std::uint64_t& known = found->second.user;
        known = known == nobody || known == user ? user : several;
      }
  }
  /// These blocks are the first to leave, the last one first, except for those that others have had, or that stay.
  void leave_first(std::span<const RecordKey> keys, std::uint64_t user) {
    order_.leave_first(block_keys(keys), [&](std::size_t i) {
      const Entry& entry = at(keys[i]);
      return entry.pins > 0 || entry.user != user;
    });
  }
  /// Pinned blocks are not evicted. Pins are counted.
  void pin(std::span<const RecordKey> keys) {
    for (const RecordKey& key : keys) ++at(key).pins;
  }
  void unpin(std::span<const RecordKey> keys) {
    for (const RecordKey& key : keys)
      if (const BlockKey block = block_key(key); --entries_.at(block).pins == 0) order_.may_leave(block);
  }
  /// The blocks of a session's request that has ended stay until `until`, or until the session's next request joins. If
  /// the sessions of its salt would pin more than their share, those whose pins would end the soonest lose them, if
  /// that lets blocks go: what other pins of the salt cover as well stays pinned. If this pin would end the soonest, it
  /// is cut to the beginning of the request for which there is room; so is one that is larger than the share.
  void pin_session(std::uint32_t session, std::uint64_t salt, std::vector<RecordKey> keys, Seconds until, Seconds now) {
    unpin_expired(now);
    if (until <= now) return; // while its blocks crossed the link
    ++counts_.pins;
    keys.resize(std::min(keys.size(), static_cast<std::size_t>(most_pinned_)));
    if (session == 0) // of the same blocks the later end counts: else a repeated prompt would add pins without bound
      unpin_sessions([&](const SessionPin& one) {
        const bool same = one.session == 0 && one.salt == salt && one.keys.back() == keys.back();
        if (same) until = std::max(until, one.until);
        return same;
      });
    for (const RecordKey& key : keys) pin_for_session(key, salt);
    while (pinned_of(salt) > most_pinned_) {
      const auto gives_way = [&](const SessionPin& one) {
        return one.salt == salt && one.until <= until &&
               std::any_of(one.keys.begin(), one.keys.end(),
                           [this](const RecordKey& key) { return at(key).sessions == 1; });
      };
      if (const auto one = std::find_if(sessions_.begin(), sessions_.end(), gives_way); one != sessions_.end()) {
        lose(one - sessions_.begin());
        continue;
      }
      unpin_for_session(keys.back(), salt);
      keys.pop_back();
    }
    if (keys.empty()) {
      ++counts_.lost_pins;
      return;
    }
    const auto after = std::upper_bound(sessions_.begin(), sessions_.end(), until,
                                        [](Seconds time, const SessionPin& one) { return time < one.until; });
    sessions_.insert(after, {session, salt, until, std::move(keys)});
  }
  void unpin_session(std::uint32_t session) {
    unpin_sessions([session](const SessionPin& one) { return one.session == session; });
  }
  /// How many pins have not ended.
  [[nodiscard]] std::size_t session_pins() const { return sessions_.size(); }
  void unpin_expired(Seconds now) {
    unpin_sessions([now](const SessionPin& one) { return one.until <= now; });
  }

  /// Sets room aside for up to `blocks` token blocks that are worth `worth`, and evicts others for it. If no others are
  /// left, sessions lose their pins, the one that would end the soonest first, but only where that lets a block leave.
  /// Returns for how many.
  [[nodiscard]] std::int64_t reserve(std::int64_t blocks, double worth = std::numeric_limits<double>::infinity()) {
    const auto wanted = static_cast<std::size_t>(std::min(reserved_ + blocks, counts_.capacity));
    const auto stays = [this](BlockKey key) { return entries_.find(key)->second.pins > 0; };
    const auto evicted = [this](BlockKey key) { evict(key); };
    std::size_t room = order_.make_room_for(wanted, worth, stays, evicted);
    // Blocks that several sessions pin, and nobody else, leave only when all of these have lost their pins.
    for (const bool shared : {false, true})
      for (std::ptrdiff_t i = 0; room < wanted && i < std::ssize(sessions_);) {
        if (!holds_back(sessions_[static_cast<std::size_t>(i)], worth, shared)) {
          ++i;
          continue;
        }
        lose(i);
        room = order_.make_room_for(wanted, worth, stays, evicted);
      }
    const std::int64_t got = std::max<std::int64_t>(0, static_cast<std::int64_t>(room) - reserved_);
    reserved_ += got;
    return got;
  }
  void give_back(std::int64_t reserved) { reserved_ -= reserved; }
  /// Adds a request's blocks for which room is reserved, in order, worth `worth` each; the tier owns their host blocks
  /// from now on, and calls `added(i)` for those that it did not have. `before`: the request's block before them, null
  /// for its first. If that has left the tier meanwhile, nobody could find these: the tier releases them.
  template <class Added>
  void add(std::span<const RecordKey> keys, std::vector<std::vector<std::int32_t>> host, double worth,
           const RecordKey* before, const Added& added) {
    SLUICE_ASSERT(reserved_ >= static_cast<std::int64_t>(keys.size()) && host.size() == keys.size(), "room for each");
    reserved_ -= static_cast<std::int64_t>(keys.size());
    std::size_t end = 0;
    if (before == nullptr || holds(*before)) // of two keys with one hash, the first one stays
      while (end < keys.size() && (holds(keys[end]) || !order_.holds(block_key(keys[end])))) ++end;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      SLUICE_ASSERT(host[i].size() == static_cast<std::size_t>(layers_), "a block of each layer");
      if (i >= end || holds(keys[i])) {
        release(host[i]);
        continue;
      }
      entries_.emplace(block_key(keys[i]), Entry{keys[i], std::move(host[i])});
      ++counts_.blocks;
      ++counts_.stored;
      added(i);
    }
    order_.store(
        block_keys(keys.first(end)), [](BlockKey) { SLUICE_ASSERT(false, "room was reserved"); },
        [worth](std::size_t) { return worth; }, before == nullptr ? BlockKey{} : block_key(*before));
    tell_idle();
  }

  /// A request that waits will start with these blocks, which stay pinned until it does, or leaves.
  void keep_for(RequestId id, std::vector<RecordKey> keys) {
    if (keys.empty()) return;
    pin(keys);
    waiting_[index(id)] = std::move(keys);
  }
  [[nodiscard]] bool keeps_for(RequestId id) const { return waiting_.contains(index(id)); }
  /// Ends that, and returns the keys.
  [[nodiscard]] std::vector<RecordKey> take_kept(RequestId id) {
    const auto found = waiting_.find(index(id));
    if (found == waiting_.end()) return {};
    std::vector<RecordKey> keys = std::move(found->second);
    waiting_.erase(found);
    unpin(keys);
    return keys;
  }

 private:
  struct Entry {
    RecordKey key;
    std::vector<std::int32_t> host; ///< by layer
    int pins = 0, sessions = 0;     ///< the latter are part of the former
    std::uint64_t user = nobody;    ///< the one user that has had it, or `several`
  };
  static constexpr std::uint64_t nobody = 0, several = ~std::uint64_t{0}; ///< users
  struct SessionPin {
    std::uint32_t session = 0;
    std::uint64_t salt = 0;
    Seconds until{0};
    std::vector<RecordKey> keys;
  };
  struct HashKey {
    std::size_t operator()(BlockKey key) const { return static_cast<std::size_t>(key); }
  };

  [[nodiscard]] std::span<const BlockKey> block_keys(std::span<const RecordKey> keys) {
    keys_.clear();
    for (const RecordKey& key : keys) keys_.push_back(block_key(key));
    return keys_;
  }
  [[nodiscard]] Entry& at(const RecordKey& key) { return entries_.at(block_key(key)); }
  [[nodiscard]] const Entry& at(const RecordKey& key) const { return entries_.at(block_key(key)); }
  void pin_for_session(const RecordKey& key, std::uint64_t salt) {
    pin({&key, 1});
    if (at(key).sessions++ == 0) count_pinned(salt, 1);
  }
  void unpin_for_session(const RecordKey& key, std::uint64_t salt) {
    unpin({&key, 1});
    if (--at(key).sessions == 0) count_pinned(salt, -1);
  }
  void unpin(const SessionPin& one) {
    for (const RecordKey& key : one.keys) unpin_for_session(key, one.salt);
  }
  /// How many blocks the sessions of a salt pin. A block has one salt, which its key includes.
  [[nodiscard]] std::int64_t pinned_of(std::uint64_t salt) const {
    const auto found = pinned_.find(salt);
    return found == pinned_.end() ? 0 : found->second;
  }
  void count_pinned(std::uint64_t salt, std::int64_t more) {
    counts_.pinned += more;
    if (const auto own = pinned_.try_emplace(salt, 0).first; (own->second += more) == 0) pinned_.erase(own);
  }
  /// A session's pin ends before its time.
  void lose(std::ptrdiff_t pin) {
    unpin(std::exchange(sessions_[static_cast<std::size_t>(pin)], {}));
    sessions_.erase(sessions_.begin() + pin);
    ++counts_.lost_pins;
  }
  /// Whether a block could leave if this session did not pin it; or if no session did (`shared`).
  [[nodiscard]] bool holds_back(const SessionPin& one, double worth, bool shared) const {
    return std::any_of(one.keys.begin(), one.keys.end(), [&](const RecordKey& key) {
      const Entry& entry = at(key);
      return entry.pins == (shared ? entry.sessions : 1) && order_.may_evict(block_key(key), worth);
    });
  }
  template <class Ends>
  void unpin_sessions(const Ends& ends) {
    std::erase_if(sessions_, [&](const SessionPin& one) {
      if (!ends(one)) return false;
      unpin(one);
      return true;
    });
  }
  void evict(BlockKey key) {
    const auto found = entries_.find(key);
    release(found->second.host);
    entries_.erase(found);
    --counts_.blocks;
    ++counts_.evicted;
    tell_idle();
  }
  void release(std::span<const std::int32_t> host) {
    for (const std::int32_t block : host) store_->give_host(block);
  }
  void tell_idle() { store_->keep_free_on_host((counts_.capacity - counts_.blocks) * layers_); }

  KvStore* store_;
  int layers_;
  TierStore order_; ///< knows a hash of each key
  std::unordered_map<BlockKey, Entry, HashKey> entries_;
  std::unordered_map<std::uint32_t, std::vector<RecordKey>> waiting_; ///< by request
  std::vector<SessionPin> sessions_;                                  ///< the one that ends the soonest first
  std::unordered_map<std::uint64_t, std::int64_t> pinned_;            ///< token blocks that sessions pin, by salt
  std::int64_t most_pinned_ = 0;                                      ///< of each salt
  std::vector<BlockKey> keys_;
  std::int64_t reserved_ = 0; ///< token blocks that are on their way to the tier
  HostTierCounts counts_;
};

// kv_digest: a number that tells apart the KV of two models, and of two ways to compute it.

/// The digest of everything, besides tokens, that the bytes of a block depend on: the weights (`weights_digest`), the
/// decoder's shape with its latents, states and experts, the choice of those, norms, positions, rotations and windows,
/// the elements' size, the block's size, and `build`, the program that computes them. The tokenizer counts by its
/// vocabulary: KV depends on token numbers, not on their text.
[[nodiscard]] inline std::uint64_t kv_digest(const ModelWeights& weights, std::int64_t element_bytes,
                                             Tokens block_tokens, std::string_view build) {
  const DecoderConfig& config = weights.config;
  const ModelShape& shape = config.shape;
  const RopeScaling& scaling = config.rope_scaling;
  Fnv digest;
  const auto add_text = [&digest](std::string_view text) {
    digest.add(static_cast<std::int64_t>(text.size()));
    const auto bytes = std::as_bytes(std::span(text));
    digest.add(bytes.data(), static_cast<std::int64_t>(bytes.size()));
  };
  const auto add_real = [&digest](double value) { digest.add(std::bit_cast<std::int64_t>(value)); };
  digest.add(static_cast<std::int64_t>(record_version));
  add_text(weights_digest(weights));
  add_text(build);
  for (const std::int64_t number :
       {std::int64_t{shape.layers}, std::int64_t{shape.hidden}, std::int64_t{shape.heads}, std::int64_t{shape.kv_heads},
        std::int64_t{shape.head_dim}, std::int64_t{shape.vocabulary}, element_bytes, block_tokens.count(),
        static_cast<std::int64_t>(config.norm), static_cast<std::int64_t>(config.position),
        static_cast<std::int64_t>(config.mlp), std::int64_t{config.position_offset}, std::int64_t{config.qkv_bias},
        std::int64_t{config.query_key_norm}})
    digest.add(number);
  for (const int window : config.windows) digest.add(std::int64_t{window});
  if (shape.has_latents())
    for (const int number : {shape.latent.rank, shape.latent.rotated, shape.latent.value, shape.latent.query_rank})
      digest.add(std::int64_t{number});
  if (shape.has_states()) {
    const DeltaRule& delta = shape.delta;
    for (const int number : {delta.key_heads, delta.value_heads, delta.key_dim, delta.value_dim, delta.kernel})
      digest.add(std::int64_t{number});
    delta.layers.for_each([&digest](int layer) { digest.add(std::int64_t{layer}); });
  }
  if (shape.rotated > 0) digest.add(std::int64_t{shape.rotated});
  if (const ExpertRouting& routing = config.routing; shape.experts > 0) {
    for (const int number : {shape.experts, shape.experts_per_token, shape.shared_intermediate,
                             static_cast<int>(routing.score), routing.groups, routing.groups_per_token,
                             routing.group_scores, routing.normalised ? 1 : 0, routing.corrected ? 1 : 0})
      digest.add(std::int64_t{number});
    add_real(routing.scale);
    shape.dense.for_each([&digest](int layer) { digest.add(std::int64_t{layer}); });
  }
  if (config.neighbours_rotate || scaling.kind != RopeScalingKind::llama3)
    for (const double number : {config.neighbours_rotate ? 1.0 : 0.0, static_cast<double>(scaling.kind),
                                scaling.rotated_factor, scaling.score_factor})
      add_real(number);
  for (const double number :
       {static_cast<double>(config.norm_epsilon), config.rope_theta, static_cast<double>(scaling.factor),
        static_cast<double>(scaling.low_frequency_factor), static_cast<double>(scaling.high_frequency_factor),
        static_cast<double>(scaling.original_positions)})
    add_real(number);
  return digest.value();
}

} // namespace sluice
