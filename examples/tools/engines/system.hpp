// SPDX-License-Identifier: Apache-2.0
// System: a published system as programs link it; functions that make engines hide its engine type.
#pragma once

#include "sluice/engine/any_engine.hpp"
#include "sluice/engine/node/remap_controller.hpp"
#include "sluice/policy/cost/calibrated.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/simulated.hpp"

#include "engines/cost_choice.hpp"
#include "engines/numbers.hpp"
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
#include <vector>

namespace engines {

using Observer = sluice::AnyObserver<true>;

/// An engine on a simulated machine.
using SimulatedEngine = sluice::AnyEngine<sluice::BasicSimulated<CostChoice>, CostChoice, Observer>;

/// The cost model of planners on a real machine: the times measured before the run, corrected by measured iterations if
/// `Setup::calibrates`.
using Believed = sluice::Calibrated<CostChoice>;
/// An engine on a real machine. `Cpu` represents every real backend: an engine sees only a BackendWorld, not the
/// device.
using RealEngine = sluice::AnyEngine<sluice::Cpu, Believed, Observer>;

/// One simulation of one system.
struct Simulation {
  const Setup& setup;
  sluice::Slo slo;
  bool deposit = false;
  std::string_view rule{}; ///< name of a transfer rule; empty: the system's own
  sluice::EventListener* listener = nullptr;
  bool explains_misses = false; ///< `EngineConfig::explains_misses`
};

/// A system's composition, by the names of its policies' types.
struct Composed {
  std::string_view transfer;           ///< the transfer rule's name
  std::array<std::string, 11> choices; ///< in the order of a decision; empty: the role's default
  bool caches = false;                 ///< it has tiers below the device
};

struct Simulated {
  SimulatedEngine engine;
  Composed composed;
};

/// A workload, one request at a time: a TraceReader.
struct Requests {
  std::function<sluice::Expected<std::optional<sluice::RequestSpec>>()> next;
  std::function<std::span<const sluice::ContentPiece>()> known{}; ///< empty: no request's content is known
  [[nodiscard]] std::span<const sluice::ContentPiece> content() const {
    return known ? known() : std::span<const sluice::ContentPiece>{};
  }
  bool in_steps = false; ///< arrivals count iterations
  [[nodiscard]] bool arrivals_in_steps() const { return in_steps; }
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
  sluice::Status status; ///< ok, or `livelocked`: `tell` has received the requests served before
  Composed composed;
};

/// What a program reports about a system that it runs for real.
struct RealComposed {
  std::string engine; ///< `Engine<…>`
  std::string_view transfer;
  bool deposits = false;
  bool foresees = false; ///< as in System
};

/// A row of the registry. A function is null if the system does not support that kind of run.
struct System {
  std::string_view name;
  std::string_view what; ///< one line for --list

  /// Errors: no engine of that type can be made with this setup.
  sluice::Expected<Simulated> (*simulate)(const Simulation&) = nullptr;
  sluice::Expected<RealEngine> (*run)(const Setup&, sluice::Slo, sluice::Cpu, Observer) = nullptr;
  /// Errors: those of `simulate`, and an unreadable trace.
  sluice::Expected<NodeEnd> (*simulate_node)(const NodeSimulation&) = nullptr;
  RealComposed (*composed)() = nullptr;

  /// The numbers that its policies declare.
  std::vector<NumberRow> (*numbers)() = nullptr;

  bool knows_lengths = false;           ///< its admission uses output lengths, which a server cannot know
  bool caches = false;                  ///< it says itself what tiers keep of a request, and what is loaded
  sluice::Replacement evicts{};         ///< which of it leaves the first tier first, if it says so itself
  bool moves_weights = false;           ///< on a machine: weights leave the device, to stream or to lend memory
  bool finds_released = false;          ///< requests find others' beginnings on the device, by their tokens
  bool rebuilds_kv = false;             ///< it recomputes K and V, so iterations need buffers for that
  bool states_on_device = false;        ///< from hidden states that stay on the device, if it keeps any
  std::string_view rule{};              ///< set in a row that is another system on this transfer rule
  bool foresees = false;                ///< a policy of it knows how long answers will be: an oracle, marked in reports
  sluice::HintSet uses_hints{};         ///< what it reads of clients' hints
  bool control = false;                 ///< a control row: never ranked
  bool deposit_never = false;           ///< an ablation without the deposit
  bool streams_weights = false;         ///< the model may be larger than the device
  bool variant = false;                 ///< a system with one part replaced: simulated only by name, not by `all`
  const char* equal_layers = nullptr;   ///< the part that serves only models whose layers are alike; null: none does
  const char* movable_layers = nullptr; ///< the same of models of which no layer moves alone
  bool host_attends = false; ///< the host attends decodes: `all` has it only if the device states `host_attention_rate`
};

} // namespace engines
