// SPDX-License-Identifier: Apache-2.0
// KeptKv: how much of a request's KV the host keeps after the request, by the answer of Caching.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/state/memory/tier.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace sluice {

struct KeptKv {
  Slot slot{};
  RequestId id{};
  Tokens tokens{std::numeric_limits<std::int64_t>::max()}; ///< how many of its oldest, if they have KV by then
  bool behind = false; ///< the host gets full blocks of these from now on while the link is idle, not at the end only
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
