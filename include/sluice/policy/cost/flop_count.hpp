// SPDX-License-Identifier: Apache-2.0
// FlopCount: FLOPs over one achieved rate, without memory traffic (the cost model of eLLM's equations).
#pragma once

#include "sluice/model/device/device.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/cost/layer_work.hpp"
#include "sluice/policy/cost/work.hpp"

namespace sluice {

/// eLLM plans by FLOPs alone (equations 1 to 5). For memory-bound decodes this predicts far too little: about 1/150 for
/// a decode of Llama-3-8B at batch 1 on an A100. It is kept because the paper's plans follow from it.
class FlopCount {
 public:
  using role = roles::Cost;
  struct State {};

  /// `rate`: what the device achieves.
  FlopCount(const ModelShape& shape, FlopsPerSecond rate, LinkCost link) : work_(shape), rate_(rate), link_(link) {
    SLUICE_ASSERT(rate.count() > 0, "a positive rate");
  }
  /// At the device's own peak: the paper divides by "the computing power of the GPU".
  FlopCount(const ModelShape& shape, const Device& device)
      : FlopCount(shape, device.compute_rate(1.0), device_link(device)) {}

  [[nodiscard]] StepTime step(const Work& work) const {
    const Tokens tokens = work.tokens();
    const Flops layer = work_.linear_flops(tokens) + work_.flops_per_pair() * LayerWork::attention(work, tokens).pairs +
                        work_.rebuild_flops(work.rebuilt);
    return {Seconds{0}, layer / rate_, work_.head_flops(work.samples) / rate_};
  }
  [[nodiscard]] LinkCost link() const { return link_; }
  [[nodiscard]] const FlopCount& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}

 private:
  LayerWork work_;
  FlopsPerSecond rate_;
  LinkCost link_;
};

static_assert(explain<FlopCount>());

} // namespace sluice
