// SPDX-License-Identifier: Apache-2.0
// A fleet's run: one router over engines of one system (or of two, prefill and decode), on one seed's workload.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/fleet/fleet.hpp"

#include "fleet/clients.hpp"
#include "fleet/fleet_engine.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fleets {

struct Fleets {
  const engines::System* system = nullptr;
  const engines::System* decoder = nullptr; ///< of the second pool; null: one pool
  std::size_t engines = 0, decoders = 0;
  const engines::Setup* setup = nullptr;
  sluice::Slo slo{};
  bool deposit = false;
  sluice::Seconds every{0.1};        ///< how often engines report
  std::uint64_t seed = 1;            ///< of routers that draw
  std::span<const double> weights{}; ///< of the router's scorers; empty: its own
  sluice::FleetSettings settings{};
  sluice::Seconds copies{0};      ///< for which a request that arrives with its KV holds up the engine that takes it
  bool tells = false;             ///< tokens by second, and first tokens of the second pool
  bool notes = false;             ///< `Ran::fates` and `Ran::stays`, about 120 bytes a request
  sluice::Ranks* ranks = nullptr; ///< of MPI; null: this process runs all engines
  std::atomic<std::int64_t>* ended = nullptr; ///< counts requests that ended, for a progress bar
};

/// What became of one request.
struct Fate {
  std::uint64_t number = 0;
  std::uint32_t engine = 0; ///< that it was sent to first
  float age = 0;            ///< of that engine's report, in s
  std::int32_t seen = -1;   ///< requests that the report said were waiting; -1: the router read no report
  bool served = false;
  double sent = 0;    ///< by its client, in s of the run
  double routed = -1; ///< the same, to its first engine
  double first = 0, last = 0;
  std::int64_t prompt = 0, found = 0, tokens = 0;
  std::uint32_t session = 0;
};

/// A request was sent to an engine: by its client, for its handover, or after another engine's death.
struct Stay {
  std::uint64_t number = 0;
  std::uint32_t engine = 0;
  double from = 0; ///< s of the run
};

struct Ran {
  sluice::FleetSummary summary;
  std::size_t last_pool = 0;                                            ///< its first engine
  std::vector<Fate> fates;                                              ///< with `notes`: by number
  std::vector<Stay> stays;                                              ///< with `notes`: each request's in order
  std::string refusal;                                                  ///< why a request was refused first
  double queue_grows = 0;                                               ///< `queue_grows` of docs/metrics.md
  std::vector<double> tokens;                                           ///< with `tells`: delivered, by second
  std::vector<std::pair<std::uint32_t, sluice::Seconds>> second_firsts; ///< with `tells`: by the second pool's engines
  [[nodiscard]] double imbalance() const; ///< the busiest engine's generated tokens over the mean, of the last pool
};

/// A row of the table of routers.
struct RouterRow {
  std::string_view name;
  std::string_view what;   ///< one line for --list
  std::size_t scorers = 0; ///< whose weights may be given
  sluice::Expected<Ran> (*run)(const Fleets&, Clients&) = nullptr;
};
[[nodiscard]] std::span<const RouterRow> routers();

} // namespace fleets
