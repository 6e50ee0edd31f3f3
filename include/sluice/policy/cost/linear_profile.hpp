// SPDX-License-Identifier: Apache-2.0
// LinearProfile: step and transfer times linear in the number of tokens (OrbitFlow's profiles).
#pragma once

#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/cost/layer_work.hpp"

#include <algorithm>

namespace sluice {

/// seconds = per_token * tokens + fixed.
struct LinearFit {
  double per_token = 0.0;
  double fixed = 0.0;
};

/// OrbitFlow's fits: `decode` is a step without offloading over the tokens in the batch (all tokens whose KV is read);
/// `communication` is the transfer of all layers' KV of that many tokens. A layer takes 1/L of either.
///
/// The files hold no prefill. A prefill takes the model's FLOPs over `prefill_rate` (65 TFLOP/s on the A5000,
/// OrbitFlow, section 4), but at least the fixed part of a step, since the weights are read anyway. A mixed iteration
/// pays that part once. Rebuilding takes its FLOPs in the same way; its bytes count nothing, and so reading hidden
/// states from device memory (`LayerRebuild::read`) is free.
class LinearProfile {
 public:
  using role = roles::Cost;
  struct State {};

  LinearProfile(const ModelShape& shape, LinearFit decode, LinearFit communication, FlopsPerSecond prefill_rate)
      : work_(shape), decode_(decode), prefill_rate_(prefill_rate), layers_(shape.layers) {
    SLUICE_ASSERT(prefill_rate.count() > 0, "a positive rate");
    SLUICE_ASSERT(communication.per_token > 0, "a communication time that grows with the tokens");
    const auto kv = static_cast<double>(shape.kv_bytes_per_token().count());
    link_ = {BytesPerSecond{kv / communication.per_token}, Seconds{communication.fixed / layers_}};
  }

  [[nodiscard]] StepTime step(const Work& work) const {
    const Tokens fresh = work.tokens() - Tokens{work.decodes};
    if (work.decodes == 0 && fresh == Tokens{0}) return {};
    Seconds prefill{0};
    if (fresh > Tokens{0} || !work.rebuilt.nothing()) {
      Work chunks = work;
      chunks.decodes = 0;
      chunks.decode_context = Tokens{0};
      const Flops layer = work_.linear_flops(fresh) +
                          work_.flops_per_pair() * LayerWork::attention(chunks, fresh).pairs +
                          work_.rebuild_flops(work.rebuilt);
      const std::int64_t rows = std::max<std::int64_t>(0, work.samples - work.decodes);
      prefill = (layer * static_cast<double>(layers_) + work_.head_flops(rows)) / prefill_rate_;
    }
    const double total =
        std::max(decode_.fixed, prefill.count()) + decode_.per_token * static_cast<double>(work.decode_context.count());
    return {Seconds{0}, Seconds{total / layers_}, Seconds{0}};
  }
  [[nodiscard]] LinkCost link() const { return link_; }
  [[nodiscard]] const LinearProfile& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}

  [[nodiscard]] LinearFit decode() const { return decode_; }
  /// Above both sides of the longer of a step's fixed part and the prompts' FLOPs.
  [[nodiscard]] StepFloor floor() const {
    const double token = (work_.linear_flops(Tokens{1}) * static_cast<double>(layers_) / prefill_rate_).count();
    const double pair = (work_.flops_per_pair() * static_cast<double>(layers_) / prefill_rate_).count();
    const double context = decode_.per_token;
    const Flops projection = work_.rebuild_flops({Tokens{1}});
    return {
        {{.fixed_s = decode_.fixed, .context_s = context}, {.context_s = context, .token_s = token, .pair_s = pair}},
        token,
        (projection * static_cast<double>(layers_) / prefill_rate_).count()};
  }

 private:
  LayerWork work_;
  LinearFit decode_;
  FlopsPerSecond prefill_rate_;
  int layers_;
  LinkCost link_;
};

static_assert(explain<LinearProfile>());

} // namespace sluice
