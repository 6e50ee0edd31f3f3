// SPDX-License-Identifier: Apache-2.0
// A run: one system, on one workload, under one SLO, with or without a deposit; and the systems there are.
//
// Every system's translation unit includes this, so what all of them would compile alike (readers, reports, JSON) is
// only declared here, and compiled once elsewhere.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/device/device.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/view/view.hpp"
#include "sluice/workload/request.hpp"

#include "compare/cost_choice.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace sluice {
class IntervalRecord;
}

namespace compared {

struct Tenants; ///< compare/tenants.hpp
struct Wanted;  ///< compare/wanted.hpp

/// The workload, one request at a time: a TraceReader, whatever reads it (compare/prepare.cpp).
struct Requests {
  std::function<sluice::Expected<std::optional<sluice::RequestSpec>>()> next;
};

/// Parameters of single policies, where the command line gives them; else their own.
struct Tuned {
  double alpha = 1;                         ///< misses a step that OrbitFlow's plans may take
  std::optional<std::int64_t> plan_nodes{}; ///< placements that its planner evaluates at most
  sluice::Seconds max_wait{
      std::numeric_limits<double>::infinity()};               ///< the longest that OrbitFlow keeps anybody paused
  std::optional<sluice::TokenBlocks> rotation{};              ///< that SuperInfer may move beyond what is free
  std::optional<double> lag_alpha{}, lag_first{}, lag_next{}; ///< SuperInfer's alpha, beta_F, beta_B
  std::optional<int> interval{};                              ///< of DeepSpeedWeights: 1 is DeepSpeed's
  std::optional<int> remapped{};                              ///< the most layers whose memory Mirage lends
};

/// What every system of a comparison gets alike.
struct Setup {
  sluice::Limits limits;
  sluice::Geometry geometry;
  sluice::LayerBlocks device_blocks{0};
  sluice::LayerBlocks host_blocks{0};
  sluice::TokenBlocks worst_batch{0}; ///< for FlexGen
  Tuned tuned{};
  CostChoice cost;                                        ///< planner's and world's
  std::shared_ptr<const sluice::IntervalRecord> record{}; ///< that Select-N looks up; else one of its own
  sluice::ModelShape model;                               ///< for FlexGen's estimate by peak rates
  sluice::Device device;
  std::function<sluice::Expected<Requests>(sluice::Slo)> open; ///< the workload, from its start
  std::shared_ptr<const Tenants> tenants{};                    ///< if there are several models
  int engines_on_bus = 1;                                      ///< of them
  bool calibrates = false; ///< a cost model that can learn from measured iterations does
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

using Runner = sluice::Status (*)(const Request&, Outcome&);

/// One system by name. `run` is the engine's translation unit: generated, one per system (shared/systems.cmake).
struct System {
  std::string_view name;
  std::string_view what; ///< one line for --list
  Runner run = nullptr;
  std::string_view rule{}; ///< where it is another system on another rule
  bool control = false;
  bool deposit_never = false;   ///< an ablation that leaves the deposit out
  bool streams_weights = false; ///< the model may be larger than the device
  bool variant = false;         ///< one part of a system replaced: run where it is named, not with `all`
  bool tenants = false;         ///< serves several tenants as well
};

/// Every system, in the order of the table.
std::span<const System> systems();

/// Whether this build holds the systems on the rule of that name (SLUICE_COMPARE_RULES in CMakeLists.txt).
bool built_on(std::string_view rule);

} // namespace compared
