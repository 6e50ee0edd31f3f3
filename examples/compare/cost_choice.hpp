// SPDX-License-Identifier: Apache-2.0
// CostChoice: whichever cost model the command line asked for.
#pragma once

#include "sluice/cost/linear_profile.hpp"
#include "sluice/cost/roofline.hpp"
#include "sluice/cost/table_profile.hpp"

#include <utility>
#include <variant>

namespace compared {

/// One cost model of three, chosen at run time: a comparison instantiates each engine once instead of three times. It
/// stays at the edge of this program; an engine that is built for something names its model.
class CostChoice {
 public:
  using role = sluice::roles::Cost;
  struct State {};

  template <class Model>
  explicit CostChoice(Model model) : model_(std::move(model)) {}

  [[nodiscard]] sluice::StepTime step(const sluice::Work& work) const {
    return std::visit([&work](const auto& model) { return model.step(work); }, model_);
  }
  [[nodiscard]] sluice::LinkCost link() const {
    return std::visit([](const auto& model) { return model.link(); }, model_);
  }
  [[nodiscard]] const CostChoice& believe(const State&) const { return *this; }
  void observe(State&, const sluice::Observation&) const {}

 private:
  std::variant<sluice::Roofline, sluice::LinearProfile, sluice::TableProfile> model_;
};

} // namespace compared
