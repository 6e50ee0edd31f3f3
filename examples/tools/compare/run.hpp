// SPDX-License-Identifier: Apache-2.0
// A run: one system, on one workload, under one SLO, with or without a deposit; and the systems there are.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/workload/request.hpp"

#include "engines/setup.hpp"
#include "engines/system.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace compared {

struct Tenants; ///< compare/tenants.hpp
struct Wanted;  ///< compare/wanted.hpp

using engines::Requests;
using engines::System;
using engines::Tuned;

/// What every system of a comparison gets alike.
struct Setup : engines::Setup {
  std::function<sluice::Expected<Requests>(sluice::Slo)> open{}; ///< the workload, from its start
  std::shared_ptr<const Tenants> tenants{};                      ///< if there are several models
};

/// One row of the table to be.
struct Request {
  const Setup& setup;
  sluice::Slo slo;
  bool deposit = false;
  std::string_view rule{};        ///< a transfer rule's name; empty: the system's own
  bool details = false;           ///< a trace file is wanted
  bool why = false;               ///< what requests' time went to
  std::int64_t why_id = -1;       ///< of which request in particular
  const Wanted* wanted = nullptr; ///< of files; null: figures alone
  std::function<void(std::int64_t ended)> tell;
};

struct Outcome; ///< compare/outcome.hpp

/// Runs the system to its end. Errors: no engine can be made with this setup, a trace that cannot be read, and a
/// policy's impossible answer.
sluice::Status run(const System& system, const Request& request, Outcome& outcome);

/// How a run ended.
struct Ended {
  engines::Composed composed;
  std::string livelock; ///< what the run was caught in; empty: all requests ended
  sluice::Seconds now{0};
};
/// Simulates an engine of `simulate` (System::simulate) on the request's workload, before `listener`.
sluice::Expected<Ended> simulate(sluice::Expected<engines::Simulated> (*simulate)(const engines::Simulation&),
                                 const Request& request, sluice::EventListener& listener);

/// The program's name, and every system that it compares, in the order of the table. Defined by the program.
const char* program_name();
std::span<const System> systems();

} // namespace compared
