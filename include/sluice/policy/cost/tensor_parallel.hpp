// SPDX-License-Identifier: Apache-2.0
// TensorParallel: a model divided among the devices of one group, which all-reduce twice in each layer.
#pragma once

#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/cost/measured_grid.hpp"

#include <type_traits>
#include <utility>

namespace sluice {

namespace detail {

/// The tokens of `work` on which `cost` runs its kernels: more than the batch's own if it pads batches.
template <class Cost>
Tokens computed_tokens(const Cost& cost, const Work& work) {
  if constexpr (requires { cost.padded(work); })
    return Tokens{cost.padded(work)};
  else
    return work.tokens();
}

} // namespace detail

/// `Base` for one device's part of the model (`tensor_shard`), plus the group's communication (Shoeybi et al.,
/// "Megatron-LM", 2019). Every layer has an all-reduce of the attention's output and one of the MLP's, each of tokens x
/// hidden; there is one of the embeddings before the layers, and the logits are gathered after the last layer. Each
/// runs on the same stream after what it sums, and nothing overlaps it, as in serving engines. A batch that `Base` pads
/// is all-reduced padded, because a captured graph holds its collectives too.
///
/// An engine with this model serves the whole group, seen from one device: blocks, rates and memories are that
/// device's, and all devices do the same at the same time. If all-reduces cross the host's link, `StepTime::on_link`
/// says for which share of the time, and offloading meanwhile slows them (`contended`,
/// policy/transfer/evaluate_link.hpp).
///
/// Layers that rebuild KV pass whole prefixes through, which are summed in the same all-reduces; rebuilding only K and
/// V (`projected`) needs none.
template <CostModel Base>
  requires std::is_empty_v<typename Base::State>
class TensorParallel {
 public:
  using role = roles::Cost;
  using base_type = Base;
  static constexpr bool reads_contexts = ReadsContexts<Base>;
  /// The model learns nothing: `Calibrated<TensorParallel<Base>>` does, and corrects the group's times as a whole.
  struct State {};

  /// `shard`: the times of one device's part. `whole`: the model. `all_reduce`: the group's.
  TensorParallel(Base shard, const ModelShape& whole, AllReduce all_reduce)
      : shard_(std::move(shard)),
        all_reduce_(std::move(all_reduce)),
        layers_(whole.layers),
        token_bytes_(static_cast<double>(whole.hidden_bytes_per_token().count())),
        row_bytes_(static_cast<double>(whole.vocabulary) * whole.weight_element_bytes) {}

  [[nodiscard]] StepTime step(const Work& work) const {
    StepTime time = shard_.step(work);
    const Tokens tokens = detail::computed_tokens(shard_, work);
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
