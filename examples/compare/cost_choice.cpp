// SPDX-License-Identifier: Apache-2.0
// The three cost models of sluice-compare.
#include "compare/cost_choice.hpp"

#include "sluice/cost/linear_profile.hpp"
#include "sluice/cost/roofline.hpp"
#include "sluice/cost/table_profile.hpp"

#include <memory>
#include <utility>
#include <variant>

namespace compared {

struct CostChoice::Model {
  std::variant<sluice::Roofline, sluice::LinearProfile, sluice::TableProfile> of;
};

CostChoice::CostChoice(sluice::Roofline model) : model_(std::make_shared<const Model>(Model{std::move(model)})) {}
CostChoice::CostChoice(sluice::LinearProfile model) : model_(std::make_shared<const Model>(Model{std::move(model)})) {}
CostChoice::CostChoice(sluice::TableProfile model) : model_(std::make_shared<const Model>(Model{std::move(model)})) {}

sluice::StepTime CostChoice::step(const sluice::Work& work) const {
  return std::visit([&work](const auto& model) { return model.step(work); }, model_->of);
}
sluice::LinkCost CostChoice::link() const {
  return std::visit([](const auto& model) { return model.link(); }, model_->of);
}

} // namespace compared
