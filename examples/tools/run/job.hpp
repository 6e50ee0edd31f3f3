// SPDX-License-Identifier: Apache-2.0
// Job: one system on one machine with its requests.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/forecast_slo.hpp"
#include "sluice/serve/gate.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/served_request.hpp"
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

/// Where an engine's requests come from, and who is told what became of them at submission.
class Arrivals {
 public:
  Arrivals() = default;
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;
  virtual ~Arrivals() = default;

  /// When the next request arrives; nothing after the last.
  [[nodiscard]] virtual std::optional<sluice::Seconds> next_arrival() const = 0;
  /// That request.
  [[nodiscard]] virtual sluice::RequestSpec take() = 0;
  /// What the engine said to it. Before the next `take`.
  virtual void submitted(const sluice::Expected<sluice::RequestId>& id) = 0;
};

struct Job {
  const engines::Setup& setup;
  sluice::Slo slo;
  std::shared_ptr<sluice::BackendWorld> world;
  Arrivals& arrivals;
  Recorded& recorded;
  std::int64_t most_steps = std::numeric_limits<std::int64_t>::max();
  const sluice::Replay* replay = nullptr; ///< null: nothing is replayed
  std::function<bool()> enough{};         ///< asked now and then: whether to end the run here; empty: never
};

/// Makes a simulated world for a copy of the engine that looks ahead from then on.
using WorldsAhead =
    std::function<std::shared_ptr<sluice::BackendWorld>(sluice::Seconds start, const sluice::Correction& correction)>;

/// A system that serves clients until it is told to stop.
struct ServeJob {
  const engines::Setup& setup;
  sluice::Slo slo; ///< of clients that bring none: for policies that plan by one
  std::shared_ptr<sluice::BackendWorld> world;
  sluice::TokenSource& tokens;
  sluice::GenerationListener& listener;
  Recorded& recorded;
  sluice::QueueLimit queue;
  sluice::ForecastSlo forecast;
  WorldsAhead ahead;
  sluice::ServedListener* served = nullptr; ///< hears of every request that is over; null: nobody does
};

/// Runs the job to its end. Errors: no engine of that type can be made with this setup.
sluice::Status run(const engines::System& system, const Job& job);

/// Starts the system on a thread of its own. Errors: as `run`, and a system that no server can run.
sluice::Expected<std::unique_ptr<sluice::GenerationEngine>> serve(const engines::System& system, const ServeJob& job);

/// The system of that name; the error names the nearest.
sluice::Expected<const engines::System*> find_system(std::string_view name);

} // namespace running
