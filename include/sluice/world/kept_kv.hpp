// SPDX-License-Identifier: Apache-2.0
// KeptKv: what a backend's host is to keep of a request's KV after the request, as the role Caching says.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"

#include <cstdint>
#include <limits>

namespace sluice {

struct KeptKv {
  Slot slot{};
  RequestId id{};
  Tokens tokens{std::numeric_limits<std::int64_t>::max()}; ///< how many of its oldest, if they have KV by then
  bool behind = false; ///< the host gets full blocks of these from now on while the link is idle, not at the end only
  double worth = 0;    ///< of its blocks (`Worth::score`)
  std::uint32_t session = 0;
  Seconds pins_for{0}; ///< how long its blocks stay, if no request of the session joins before
};

/// The backend's host keeps KV of requests that have ended. `keep` is called after a request's iterations and when it
/// ends or is cancelled, before the request leaves. Without a call the host keeps everything, as recency allows.
template <class P>
concept KeepsKv = requires(P& backend, const KeptKv& kept) {
  backend.keep(kept);
};

} // namespace sluice
