// SPDX-License-Identifier: Apache-2.0
// CostChoice's cost models.
#include "engines/cost_choice.hpp"

#include "sluice/policy/cost/layered_roofline.hpp"
#include "sluice/policy/cost/linear_profile.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/cost/table_profile.hpp"
#include "sluice/policy/cost/tensor_parallel.hpp"

#include <memory>
#include <utility>
#include <variant>

namespace engines {

struct CostChoice::Model {
  std::variant<sluice::Roofline, sluice::LinearProfile, sluice::TableProfile, sluice::TensorParallel<sluice::Roofline>,
               sluice::LayeredRoofline, sluice::TensorParallel<sluice::TableProfile>>
      of;
};

CostChoice::CostChoice(sluice::Roofline model) : model_(std::make_shared<const Model>(Model{std::move(model)})) {}
CostChoice::CostChoice(sluice::LayeredRoofline model)
    : model_(std::make_shared<const Model>(Model{std::move(model)})) {}
CostChoice::CostChoice(sluice::LinearProfile model) : model_(std::make_shared<const Model>(Model{std::move(model)})) {}
CostChoice::CostChoice(sluice::TableProfile model) : model_(std::make_shared<const Model>(Model{std::move(model)})) {}
CostChoice::CostChoice(sluice::Roofline shard, const sluice::ModelShape& whole, sluice::AllReduce all_reduce)
    : model_(std::make_shared<const Model>(
          Model{sluice::TensorParallel<sluice::Roofline>{std::move(shard), whole, std::move(all_reduce)}})) {}
CostChoice::CostChoice(sluice::TableProfile shard, const sluice::ModelShape& whole, sluice::AllReduce all_reduce)
    : model_(std::make_shared<const Model>(
          Model{sluice::TensorParallel<sluice::TableProfile>{std::move(shard), whole, std::move(all_reduce)}})) {}

CostChoice CostChoice::with_host(HostTime host) const {
  CostChoice hosted = *this;
  hosted.host_ = host;
  return hosted;
}

sluice::StepTime CostChoice::step(const sluice::Work& work) const {
  sluice::StepTime time = std::visit([&work](const auto& model) { return model.step(work); }, model_->of);
  if (work.tokens() > sluice::Tokens{0}) {
    time.after += host_.step;
    time.layer += host_.chunk * static_cast<double>(work.chunks.size());
  }
  return time;
}
bool CostChoice::layer_times(const sluice::Work& work, std::span<double> layers_s) const {
  const auto* layered = std::get_if<sluice::LayeredRoofline>(&model_->of);
  return layered != nullptr && layered->layer_times(work, layers_s);
}
sluice::LinkCost CostChoice::link() const {
  return std::visit([](const auto& model) { return model.link(); }, model_->of);
}
std::optional<sluice::StepFloor> CostChoice::floor() const {
  return std::visit(
      [](const auto& model) -> std::optional<sluice::StepFloor> {
        if constexpr (requires { model.floor(); })
          return model.floor();
        else
          return std::nullopt;
      },
      model_->of);
}
bool CostChoice::has_grid() const { return std::holds_alternative<sluice::TableProfile>(model_->of); }
sluice::BeyondGrid CostChoice::beyond(const sluice::Work& work) const {
  const auto* table = std::get_if<sluice::TableProfile>(&model_->of);
  return table != nullptr ? table->beyond(work) : sluice::BeyondGrid{};
}

} // namespace engines
