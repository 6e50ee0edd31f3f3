// SPDX-License-Identifier: Apache-2.0
// Job: one system on one machine with its requests.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/forecast_slo.hpp"
#include "sluice/serve/gate.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/served_requests.hpp"
#include "sluice/serve/token_source.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/replayed.hpp"

#include "engines/registry.hpp"
#include "run/recorded.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

namespace running {

/// The source of an engine's requests; it is notified of each submission's result.
class Arrivals {
 public:
  Arrivals() = default;
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;
  virtual ~Arrivals() = default;

  /// The arrival time of the next request; empty after the last.
  [[nodiscard]] virtual std::optional<sluice::Seconds> next_arrival() const = 0;
  /// That request.
  [[nodiscard]] virtual sluice::RequestSpec take() = 0;
  /// How many of its tokens have KV in the machine's host tier. Called after `take`.
  [[nodiscard]] virtual sluice::Tokens on_host() const { return sluice::Tokens{0}; }
  /// The engine's answer to that request. Called before the next `take`.
  virtual void submitted(const sluice::Expected<sluice::RequestId>& id) = 0;
};

struct Job {
  const engines::Setup& setup;
  sluice::Slo slo;
  std::shared_ptr<sluice::BackendWorld> world;
  Arrivals& arrivals;
  Recorded& recorded;
  std::int64_t most_steps = std::numeric_limits<std::int64_t>::max();
  const sluice::Replay* replay = nullptr; ///< null: no replay
  std::function<bool()> enough{};         ///< called regularly; returns whether to end the run early; empty: never
};

/// Makes a simulated world for a copy of the engine that looks ahead from the current state.
using WorldsAhead =
    std::function<std::shared_ptr<sluice::BackendWorld>(sluice::Seconds start, const sluice::Correction& correction)>;

/// A system that serves clients until it is stopped.
struct ServeJob {
  const engines::Setup& setup;
  sluice::Slo slo; ///< for clients without an SLO of their own: some policies plan by it
  std::shared_ptr<sluice::BackendWorld> world;
  sluice::TokenSource& tokens;
  sluice::GenerationListener& listener;
  Recorded& recorded;
  sluice::QueueLimit queue;
  sluice::ForecastSlo forecast;
  WorldsAhead ahead;
  sluice::ServedListener* served = nullptr; ///< notified of every finished request; may be null
  /// Called with the engine before its thread starts, to attach whoever `listener` tells; may be empty.
  std::function<void(sluice::GenerationEngine&)> made{};
};

/// Runs the job to its end. Errors: no engine of that type can be made with this setup.
sluice::Status run(const engines::System& system, const Job& job);

/// Starts the system on its own thread. Errors: those of `run`, and a system that no server can run.
sluice::Expected<std::unique_ptr<sluice::GenerationEngine>> serve(const engines::System& system, const ServeJob& job);

/// Finds the system with that name; the error names the nearest one.
sluice::Expected<const engines::System*> find_system(std::string_view name);

} // namespace running
