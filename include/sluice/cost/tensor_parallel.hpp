// SPDX-License-Identifier: Apache-2.0
// TensorParallel: a model divided among the devices of one group, which add up their parts twice in each layer.
#pragma once

#include "sluice/cost/all_reduce.hpp"
#include "sluice/cost/cost_model.hpp"
#include "sluice/model/shape.hpp"

#include <type_traits>
#include <utility>

namespace sluice {

/// `Base` for one device's part of the model (`tensor_shard`), and what the group does together (Shoeybi et al.,
/// "Megatron-LM", 2019): in every layer an all-reduce of the attention's output and one of the MLP's, each of tokens x
/// hidden; one of the embeddings before the layers; and after the last layer the logits are gathered. Each follows what
/// it adds up on one stream and nothing overlaps it, as serving engines run it.
///
/// An engine on it serves the whole group, seen from one device: blocks, rates and memories are that device's, and all
/// devices do the same at the same time. Where all-reduces cross the host's link, `StepTime::on_link` says for how much
/// of the time, and what is offloaded meanwhile slows them (`contended`, transfer/evaluate_link.hpp).
///
/// Layers that rebuild KV pass whole prefixes through, whose parts are added up in the same all-reduces; K and V alone
/// (`projected`) need none.
template <CostModel Base>
  requires std::is_empty_v<typename Base::State>
class TensorParallel {
 public:
  using role = roles::Cost;
  using base_type = Base;
  /// The model learns nothing: `Calibrated<TensorParallel<Base>>` does, and corrects the group's times as a whole.
  struct State {};

  /// `shard`: times of one device's part. `whole`: the model. `all_reduce`: of the group.
  TensorParallel(Base shard, const ModelShape& whole, AllReduce all_reduce)
      : shard_(std::move(shard)),
        all_reduce_(std::move(all_reduce)),
        layers_(whole.layers),
        token_bytes_(static_cast<double>(whole.hidden_bytes_per_token().count())),
        row_bytes_(static_cast<double>(whole.vocabulary) * whole.weight_element_bytes) {}

  [[nodiscard]] StepTime step(const Work& work) const {
    StepTime time = shard_.step(work);
    const Tokens tokens = work.tokens();
    if (all_reduce_.degree() == 1 || tokens == Tokens{0}) return time;
    const auto reduced = [this](Tokens count) {
      return all_reduce_.seconds(static_cast<double>(count.count()) * token_bytes_);
    };
    const StepTime together{reduced(tokens), reduced(tokens + work.rebuilt.passed) * 2.0,
                            all_reduce_.gather_seconds(static_cast<double>(work.samples) * row_bytes_)};
    time.before += together.before;
    time.layer += together.layer;
    time.after += together.after;
    if (all_reduce_.over_host_link()) time.on_link = together.total(layers_) / time.total(layers_);
    return time;
  }
  [[nodiscard]] LinkCost link() const { return shard_.link(); }
  [[nodiscard]] const TensorParallel& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}

  [[nodiscard]] const AllReduce& all_reduce() const { return all_reduce_; }

 private:
  Base shard_;
  AllReduce all_reduce_;
  int layers_;
  double token_bytes_; ///< of one token's hidden state
  double row_bytes_;   ///< of one row of logits
};

} // namespace sluice
