// SPDX-License-Identifier: Apache-2.0
// CostChoice: whichever cost model the command line asked for.
#pragma once

#include "sluice/policy/cost/cost_model.hpp"

#include <memory>

namespace sluice {
class AllReduce;
class LinearProfile;
class Roofline;
class TableProfile;
struct ModelShape;
} // namespace sluice

namespace engines {

/// One cost model of four, chosen at run time: a comparison instantiates each engine once instead of three times. It
/// stays at the edge of this program; an engine that is built for something names its model. Copies share the model,
/// which nothing changes.
class CostChoice {
 public:
  using role = sluice::roles::Cost;
  struct State {};

  explicit CostChoice(sluice::Roofline model);
  explicit CostChoice(sluice::LinearProfile model);
  explicit CostChoice(sluice::TableProfile model);
  /// Of a tensor-parallel group.
  CostChoice(sluice::Roofline shard, const sluice::ModelShape& whole, sluice::AllReduce all_reduce);

  [[nodiscard]] sluice::StepTime step(const sluice::Work& work) const;
  [[nodiscard]] sluice::LinkCost link() const;
  [[nodiscard]] const CostChoice& predictor(const State&) const { return *this; }
  void observe(State&, const sluice::Observation&) const {}

 private:
  struct Model;
  std::shared_ptr<const Model> model_;
};

} // namespace engines
