// SPDX-License-Identifier: Apache-2.0
// System: a published system as a program links it, its engine type hidden behind functions that make engines.
#pragma once

#include "sluice/engine/any_engine.hpp"
#include "sluice/engine/node/remap_controller.hpp"
#include "sluice/policy/cost/calibrated.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/simulated.hpp"

#include "engines/cost_choice.hpp"
#include "engines/setup.hpp"
#include "engines/sharing_choice.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace engines {

using Observer = sluice::AnyObserver<true>;

/// An engine in a simulated world.
using SimulatedEngine = sluice::AnyEngine<sluice::BasicSimulated<CostChoice>, CostChoice, Observer>;

/// What planners of a real machine believe: what was measured before the run, corrected by what iterations show if
/// `Setup::calibrates`.
using Believed = sluice::Calibrated<CostChoice>;
/// An engine on a real machine. `Cpu` stands for every real backend: an engine sees a BackendWorld and nothing of a
/// device.
using RealEngine = sluice::AnyEngine<sluice::Cpu, Believed, Observer>;

/// One simulation of one system.
struct Simulation {
  const Setup& setup;
  sluice::Slo slo;
  bool deposit = false;
  std::string_view rule{}; ///< a transfer rule's name; empty: the system's own
  sluice::EventListener* listener = nullptr;
};

/// What a system is composed of, by the names of the policies' types.
struct Composed {
  std::string_view transfer;           ///< the transfer rule's name
  std::array<std::string, 10> choices; ///< in the order of a decision; empty where a role has its default
};

struct Simulated {
  SimulatedEngine engine;
  Composed composed;
};

/// A workload, one request at a time: a TraceReader.
struct Requests {
  std::function<sluice::Expected<std::optional<sluice::RequestSpec>>()> next;
};

/// Several tenants in one node, each with an engine of the system's type.
struct NodeSimulation {
  std::span<const Simulation> tenants; ///< 2 to 4
  std::span<Requests> workloads;       ///< one per tenant
  SharingChoice sharing;
  sluice::BytesPerSecond bus{std::numeric_limits<double>::infinity()};
  sluice::RemapController::Order order = sluice::RemapController::Order::most_recent_first;
  std::function<void(std::int64_t ended)> tell;
};
struct NodeEnd {
  sluice::Seconds now{0};
  sluice::Status status; ///< ok, or `livelocked`: what was served until then was told
  Composed composed;
};

/// What a program that runs a system for real reports of it.
struct RealComposed {
  std::string engine; ///< `Engine<…>`
  std::string_view transfer;
  bool deposits = false;
};

/// A row of the registry. The functions are null where a system does not run in that way.
struct System {
  std::string_view name;
  std::string_view what; ///< one line for --list

  /// Errors: no engine of that type can be made with this setup.
  sluice::Expected<Simulated> (*simulate)(const Simulation&) = nullptr;
  sluice::Expected<RealEngine> (*run)(const Setup&, sluice::Slo, sluice::Cpu, Observer) = nullptr;
  /// Errors: as `simulate`, and a trace that cannot be read.
  sluice::Expected<NodeEnd> (*simulate_node)(const NodeSimulation&) = nullptr;
  RealComposed (*composed)() = nullptr;

  bool knows_lengths = false;   ///< its admission looks at output lengths, which a server cannot know
  bool rebuilds_kv = false;     ///< it computes K and V again: iterations need buffers for that
  std::string_view rule{};      ///< a row that is another system on this transfer rule
  bool control = false;         ///< a control row: never ranked
  bool deposit_never = false;   ///< an ablation that leaves the deposit out
  bool streams_weights = false; ///< the model may be larger than the device
  bool variant = false;         ///< a system with one part replaced: simulated by name, not with `all`
};

} // namespace engines
