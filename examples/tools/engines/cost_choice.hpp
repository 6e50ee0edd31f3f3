// SPDX-License-Identifier: Apache-2.0
// CostChoice: the cost model that the command line selects.
#pragma once

#include "sluice/policy/cost/cost_model.hpp"

#include <memory>
#include <optional>
#include <span>

namespace sluice {
class AllReduce;
class LayeredRoofline;
class LinearProfile;
class Roofline;
class TableProfile;
struct BeyondGrid;
struct ModelShape;
struct StepFloor;
} // namespace sluice

namespace engines {

/// One of six cost models, selected at run time, so that a comparison instantiates each engine once instead of five
/// times. Only these programs need it: an engine built for one purpose names its cost model as a type. Copies share the
/// model, which is never modified.
class CostChoice {
 public:
  using role = sluice::roles::Cost;
  struct State {};

  explicit CostChoice(sluice::Roofline model);
  explicit CostChoice(sluice::LayeredRoofline model);
  explicit CostChoice(sluice::LinearProfile model);
  explicit CostChoice(sluice::TableProfile model);
  /// The cost model of a tensor-parallel group.
  CostChoice(sluice::Roofline shard, const sluice::ModelShape& whole, sluice::AllReduce all_reduce);
  CostChoice(sluice::TableProfile shard, const sluice::ModelShape& whole, sluice::AllReduce all_reduce);

  /// What a server's host adds to an iteration while the device waits.
  struct HostTime {
    sluice::Seconds step{0};  ///< to each iteration: scheduling, input tensors, output tokens
    sluice::Seconds chunk{0}; ///< in each layer, for each prompt, or for each request that arrives with its KV: a
                              ///< connector copies their KV layer by layer
  };
  [[nodiscard]] CostChoice with_host(HostTime host) const;

  [[nodiscard]] sluice::StepTime step(const sluice::Work& work) const;
  /// False: all layers take `step(work).layer`.
  bool layer_times(const sluice::Work& work, std::span<double> layers_s) const;
  [[nodiscard]] sluice::LinkCost link() const;
  [[nodiscard]] const CostChoice& predictor(const State&) const { return *this; }
  void observe(State&, const sluice::Observation&) const {}
  /// Lower bounds of `step`, for the bound on what is possible; none of measured kernels, of groups, and of
  /// models whose layers differ.
  [[nodiscard]] std::optional<sluice::StepFloor> floor() const;
  /// Whether it was measured on a grid, so that `beyond` can say which iterations lie within.
  [[nodiscard]] bool has_grid() const;
  /// The size of an iteration that lies furthest beyond the grid.
  [[nodiscard]] sluice::BeyondGrid beyond(const sluice::Work& work) const;

 private:
  struct Model;
  std::shared_ptr<const Model> model_;
  HostTime host_;
};

} // namespace engines
