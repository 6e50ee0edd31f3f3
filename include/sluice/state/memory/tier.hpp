// SPDX-License-Identifier: Apache-2.0
// Tier: a memory below the device, as data. KeptKv: how much of a request's KV the host keeps after the request, by
// the answer of Caching.
#pragma once

#include "sluice/core/units.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace sluice {

/// Which blocks leave a full tier first.
enum class Replacement : std::uint8_t {
  least_recent,   ///< LRU
  least_frequent, ///< LFU: the least used block; among equals the least recent. Evicted blocks' uses are forgotten
  adaptive,       ///< ARC (Megiddo and Modha, FAST 2003), as vLLM's offloading manager has it
  least_worth, ///< the leaf of the prefix tree with the lowest worth that a caller gives; among equals the least recent
};

constexpr std::string_view name(Replacement replacement) {
  constexpr std::string_view names[] = {"LRU", "LFU", "ARC", "worth"};
  return names[static_cast<std::size_t>(replacement)];
}

/// A memory for KV that outlives its request. The first tier of an engine is on the other side of the device's link
/// (host memory, or a pool of other hosts' memory); each further one (an SSD, a pool) is reached through the first.
///
/// The rates are those of the tier's own channel, one for each direction, which serves one transfer after another. The
/// first tier's blocks cross the device's link as well: host memory needs no channel of its own, so its rates stay
/// infinite.
struct Tier {
  TokenBlocks capacity{0};
  Replacement replacement = Replacement::least_recent;
  BytesPerSecond read_rate{std::numeric_limits<double>::infinity()};
  BytesPerSecond write_rate{std::numeric_limits<double>::infinity()};
  Seconds latency{0}; ///< of a read, before its first byte

  friend constexpr bool operator==(const Tier&, const Tier&) = default;
};

struct KeptKv {
  Slot slot{};
  RequestId id{};
  Tokens tokens{std::numeric_limits<std::int64_t>::max()}; ///< how many of its oldest, if they have KV by then
  bool behind = false; ///< the host gets full blocks of these from now on while the link is idle, not at the end only
  bool waited = false; ///< the next iteration begins when these have crossed
  double worth = 0;    ///< of its blocks (`Worth::score`)
  std::uint32_t session = 0;
  Seconds pins_for{0}; ///< how long its blocks stay, if no request of the session joins before
  /// How many of its oldest tokens are worth keeping (`Worth::kept`): of the others, what only its session has used
  /// leaves first.
  Tokens stays{std::numeric_limits<std::int64_t>::max()};

  /// Who uses its blocks: its session, or itself.
  [[nodiscard]] std::uint64_t user() const { return session > 0 ? session : (std::uint64_t{1} << 32) + index(id); }
};

/// The backend's host may keep KV of requests that have ended: `host_tier_evicts()` says which of it leaves first, or
/// nothing if it keeps none. If it does, `keep` is called when requests end or are cancelled, before they leave, and
/// with `Writes::behind` also after each iteration, with its requests. Without a call the host keeps everything, as
/// recency allows.
template <class P>
concept KeepsKv = requires(P& backend, std::span<const KeptKv> kept) {
  backend.keep(kept);
  requires std::same_as<decltype(backend.host_tier_evicts()), std::optional<Replacement>>;
};

} // namespace sluice
