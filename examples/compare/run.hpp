// SPDX-License-Identifier: Apache-2.0
// A run: one system, on one workload, under one SLO, with or without a deposit; and the systems there are.
#pragma once

#include "sluice/engine/simulate.hpp"
#include "sluice/report/report.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"

#include "compare/cost_choice.hpp"

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace compared {

/// What every system of a comparison gets alike.
struct Setup {
  sluice::Limits limits;
  sluice::Geometry geometry;
  sluice::LayerBlocks device_blocks{0};
  sluice::LayerBlocks host_blocks{0};
  sluice::TokenBlocks worst_batch{0}; ///< for FlexGen
  double alpha = 1;                   ///< misses a step that OrbitFlow's plans may take
  sluice::Seconds max_wait{
      std::numeric_limits<double>::infinity()};                     ///< the longest that OrbitFlow keeps anybody paused
  CostChoice cost;                                                  ///< planner's and world's: two objects of one model
  std::function<sluice::Expected<sluice::Trace>(sluice::Slo)> open; ///< the workload, from its start
};

enum class Rule : std::uint8_t { own, next_layer, fair_share, earliest_deadline_first, deadline_pool };

/// One row of the table to be.
struct Request {
  const Setup& setup;
  sluice::Slo slo;
  bool deposit = false;
  Rule rule = Rule::own;
  bool details = false; ///< a trace file is wanted
  std::function<bool(const sluice::SimulationProgress&)> tell;
};

struct Outcome {
  sluice::SystemReport report;
  std::string trace; ///< for a trace viewer; empty unless details were wanted
};

using Runner = sluice::Expected<Outcome> (*)(const Request&);

/// One system by name. `run` is the engine's translation unit: generated, one per system (examples/CMakeLists.txt).
struct System {
  std::string_view name;
  std::string_view what; ///< one line for --list
  Runner run = nullptr;
  Rule rule = Rule::own; ///< where it is another system on another rule
  bool control = false;
  bool deposit_only = false;  ///< never without its deposit
  bool deposit_never = false; ///< an ablation that leaves the deposit out
};

/// Every system, in the order of the table.
std::span<const System> systems();

} // namespace compared
