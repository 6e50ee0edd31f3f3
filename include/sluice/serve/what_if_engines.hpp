// SPDX-License-Identifier: Apache-2.0
// WhatIf<Engines...>: the "what if" of engine types, each simulated on the machine that a Server describes.
#pragma once

#include "sluice/engine/product.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/serve/generation_feed.hpp"
#include "sluice/serve/served_requests.hpp"
#include "sluice/serve/server_role.hpp"
#include "sluice/serve/what_if.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice {
namespace detail {

/// Requests in memory as a TraceReader.
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

/// An engine type as a system that requests can be replayed through. The engine's backend is its own, simulated; the
/// policies and the cost model are those that `configure` gives it. `name`: empty for the type's `alias_of`, or for
/// what a user would write (an alias itself has no name that a compiler would tell: `Engine<AllResident, MoveToHost>`).
template <class E>
[[nodiscard]] WhatIfSystem what_if_system(const Server& server, std::string name = {}) {
  static_assert(!E::backend_type::real_time,
                "sluice: a replay is simulated: name the engine without its backend, `WhatIf<VllmSwap>`");
  using Judged = With<E, GenerationFeed>;
  if (name.empty()) name = alias_of<E>.empty() ? engine_name<E>() : std::string{alias_of<E>};
  return {std::move(name),
          [server](std::span<const RequestSpec> requests, FeedListener& judge,
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

/// Runs the requests of the last ten minutes through each of `Engines`, and through the engine that served them, on a
/// thread of the lowest priority: see WhatIfThread, which this is for engine types.
///
///     LiveServer<Mine, OpenAi, WhatIf<VllmSwap, SuperInfer>>; // the answers stand at /whatif
///
/// A part of a server (serve/server_role.hpp).
template <class... Engines>
class WhatIf {
 public:
  using role = roles::WhatIf;
  struct Setup {
    Server server; ///< on which each is simulated
    /// The engine that serves, for what it would have done in simulation, so that a reader sees what the simulation is
    /// worth: `what_if_system<Mine>(server, "Mine")`.
    WhatIfSystem own;
    WhatIfLimits limits{};
    /// Of `Engines`, in their order; empty ones are named as `what_if_system` does.
    std::array<std::string, sizeof...(Engines)> names{};
  };

  explicit WhatIf(Setup setup) : thread_(served_, systems(setup), setup.limits) {}

  /// Hears of the thread's requests. Before the thread starts; outlives it.
  void hear(auto& engine_thread) { engine_thread.tell_served(served_); }
  [[nodiscard]] ServedRequests& served() { return served_; }
  [[nodiscard]] std::string json() { return thread_.json(); }
  void stop() { thread_.stop(); }

 private:
  static std::vector<WhatIfSystem> systems(Setup& setup) {
    std::vector<WhatIfSystem> all;
    all.push_back(std::move(setup.own));
    [[maybe_unused]] auto name = setup.names.begin();
    (all.push_back(what_if_system<Engines>(setup.server, std::move(*name++))), ...);
    return all;
  }

  ServedRequests served_;
  WhatIfThread thread_;
};

} // namespace sluice
