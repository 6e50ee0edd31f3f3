// SPDX-License-Identifier: Apache-2.0
// what_if_system<E>: makes an engine type a system that replays a server's requests in simulation.
#pragma once

#include "sluice/engine/product.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/serve/outlook.hpp"
#include "sluice/serve/what_if.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

namespace sluice {
namespace detail {

/// A TraceReader of requests in memory.
class ListedRequests {
 public:
  explicit ListedRequests(std::span<const RequestSpec> requests) : requests_(requests) {}
  Expected<std::optional<RequestSpec>> next() {
    if (next_ == requests_.size()) return std::optional<RequestSpec>{};
    return std::optional{requests_[next_++]};
  }

 private:
  std::span<const RequestSpec> requests_;
  std::size_t next_ = 0;
};

} // namespace detail

/// Makes engine type `E` a system of a WhatIfThread, simulated on `server`, with the policies and the cost model that
/// `configure` gives it. `name`: by default the type's `alias_of`, or its policies (`Engine<AllResident, MoveToHost>`).
template <class E>
[[nodiscard]] WhatIfSystem what_if_system(const Server& server, std::string name = {}) {
  static_assert(!E::backend_type::real_time,
                "sluice: a replay is simulated: name the engine without its backend, `what_if_system<VllmSwap>(…)`");
  using Judged = With<E, GenerationFeed>;
  if (name.empty()) name = alias_of<E>.empty() ? engine_name<E>() : std::string{alias_of<E>};
  return {std::move(name),
          [server](std::span<const RequestSpec> requests, EventListener& judge,
                   const std::function<bool()>& enough) -> Status {
            if (requests.empty()) return {};
            typename Judged::Config config = configure<Judged>(server);
            config.observers = std::tuple{GenerationFeed{&judge}};
            Expected<Judged> engine = Judged::make(std::move(config));
            if (!engine) return engine.error();
            detail::ListedRequests reader(requests);
            return simulate(
                *engine, reader, [&](const SimulationProgress&) { return !enough(); }, 64);
          }};
}

} // namespace sluice
