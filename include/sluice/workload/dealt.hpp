// SPDX-License-Identifier: Apache-2.0
// Dealt: one tenant's requests from a stream that several tenants share.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/random.hpp"
#include "sluice/workload/content.hpp"
#include "sluice/workload/reader.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace sluice {

/// The requests of `Reader` that tenant `tenant` of `tenants` gets. Each request, or whole session, goes to one tenant,
/// chosen at random with equal probability. Readers of the same stream with the same seed choose the same tenants, so
/// every request goes to exactly one of them.
///
/// A session's tenant is computed from its number and the seed, and no list of sessions is kept: with open sessions,
/// the requests of many sessions are interleaved.
template <TraceReader Reader>
class Dealt {
 public:
  Dealt(Reader all, std::uint64_t tenant, std::uint64_t tenants, std::uint64_t seed)
      : all_(std::move(all)), tenant_(tenant), tenants_(tenants), seed_(seed), random_(seed) {
    SLUICE_ASSERT(tenant < tenants, "one of the tenants");
  }
  Expected<std::optional<RequestSpec>> next() {
    for (;;) {
      Expected<std::optional<RequestSpec>> request = all_.next();
      if (!request || !*request || tenant_of(**request) == tenant_) return request;
    }
  }
  [[nodiscard]] std::span<const ContentPiece> content() const { return content_of(all_); }

 private:
  [[nodiscard]] std::uint64_t tenant_of(const RequestSpec& request) {
    if (request.session == 0) return random_.below(tenants_);
    return Random{static_cast<std::uint64_t>(next_key(BlockKey{seed_}, request.session))}.below(tenants_);
  }

  Reader all_;
  std::uint64_t tenant_, tenants_, seed_;
  Random random_; ///< for requests without a session
};

} // namespace sluice
