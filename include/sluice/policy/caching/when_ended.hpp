// SPDX-License-Identifier: Apache-2.0
// WhenEnded: writes a request's KV when the request ends.
#pragma once

#include "sluice/policy/caching/write_through.hpp"

namespace sluice {

/// `Base`, which writes when a request ends: nothing crosses the link for requests that are still computed, and nobody
/// finds a request's blocks before its end.
template <Caches Base>
struct WhenEnded : Base {
  Tokens write(const View& view, const RequestRow& row) const {
    return row.phase == Phase::ended ? Base::write(view, row) : Tokens{0};
  }
};

static_assert(explain<WhenEnded<WriteThrough>>());

} // namespace sluice
