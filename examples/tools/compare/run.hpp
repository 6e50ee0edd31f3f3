// SPDX-License-Identifier: Apache-2.0
// A run: one system on one workload with one SLO, with or without a deposit.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/report/observer/findable.hpp"
#include "sluice/workload/slo_classes.hpp"

#include "engines/setup.hpp"
#include "engines/system.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace compared {

struct Tenants; ///< compare/tenants.hpp
struct Wanted;  ///< compare/wanted.hpp

using engines::NumberSetting;
using engines::Requests;
using engines::System;

/// The part of the setup that all systems of a comparison share.
struct Setup : engines::Setup {
  std::function<sluice::Expected<Requests>(sluice::Slo)> open{}; ///< opens the workload at its beginning
  std::shared_ptr<const Tenants> tenants{};                      ///< set if there are several models
  std::vector<sluice::SloClass> slo_classes{}; ///< which a report distinguishes; infinite: the row's SLO
  sluice::Seconds counts_from{0};              ///< figures count requests that arrive in [from, until), and steps
  sluice::Seconds counts_until{std::numeric_limits<double>::infinity()};
};

/// The parameters of the run for one row of the table.
struct Request {
  const Setup& setup;
  sluice::Slo slo;
  bool deposit = false;
  std::string_view rule{};        ///< a transfer rule's name; empty: the system's own
  bool details = false;           ///< details for the page are required
  bool no_trace = false;          ///< but no trace file
  bool why = false;               ///< explain how requests' time was spent
  std::int64_t why_id = -1;       ///< the request to explain
  bool findable = false;          ///< find what its requests could have found at most
  const Wanted* wanted = nullptr; ///< for files; null: figures only
  std::function<void(std::int64_t ended)> tell;
};

struct Outcome; ///< compare/outcome.hpp

/// Runs the system to its end. Errors: no engine can be made with this setup, the trace is unreadable, or a policy gave
/// an impossible answer.
sluice::Status run(const System& system, const Request& request, Outcome& outcome);

/// How a run ended.
struct Ended {
  engines::Composed composed;
  std::string livelock; ///< the livelock that ended the run; empty: all requests ended
  sluice::Seconds now{0};
};
/// Simulates an engine of `simulate` (System::simulate) on the request's workload; `listener` receives the events, and
/// `findable`, if there is one, the blocks of the requests.
sluice::Expected<Ended> simulate(sluice::Expected<engines::Simulated> (*simulate)(const engines::Simulation&),
                                 const Request& request, sluice::EventListener& listener,
                                 sluice::Findable::State* findable = nullptr);

} // namespace compared
