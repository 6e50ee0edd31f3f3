// SPDX-License-Identifier: Apache-2.0
// Roofline: the FLOPs and bytes of the model's shape over the device's achieved rates (the default).
#pragma once

#include "sluice/model/device/device.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/cost/layer_work.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/cost/work.hpp"

#include <algorithm>

namespace sluice {

/// The share of the device's peaks that kernels reach, if the device does not state its own.
struct RooflineEfficiency {
  /// 65 of the A5000's 111.1 TFLOP/s in prefill (OrbitFlow, section 4): the rate of a serving engine, not a matrix
  /// benchmark.
  double compute = 65.0 / 111.1;
  /// 926 of the RTX 4090's 1008 GB/s: one decoder layer's matrices at one token, 436 MB in 471 us (the kernel times of
  /// LLMServingSim 2.0's profile of Llama-3.1-8B).
  double bandwidth = 926.0 / 1008.0;
};

/// A layer is its matrix products followed by its attention. Each of the two is bound by FLOPs or by bytes, whichever
/// takes longer (Williams et al., "Roofline", CACM 2009). The two times are added, not overlapped, because the kernels
/// follow one another on one stream.
///
/// Rebuilding for requests without KV (`Work::rebuilt`) runs in the same kernel or after it: `Rebuilding`.
///
/// The link is the device's own, with one segment's cost per transfer of a layer.
class Roofline {
 public:
  using role = roles::Cost;
  struct State {};

  Roofline(const ModelShape& shape, const Device& device, RooflineEfficiency efficiency = {},
           Rebuilding rebuilding = Rebuilding::fused)
      : work_(shape), rebuilding_(rebuilding), link_(device_link(device)) {
    const FlopsPerSecond flops = device.compute_rate(efficiency.compute);
    const BytesPerSecond bytes = device.memory_rate(efficiency.bandwidth);
    SLUICE_ASSERT(flops.count() > 0 && bytes.count() > 0, "a device with positive rates");
    per_byte_ = 1.0 / bytes.count();
    per_flop_ = 1.0 / flops.count();
    linear_per_token_ = (work_.linear_flops(Tokens{1}) / flops).count();
    pair_ = (work_.flops_per_pair() / flops).count();
    kv_token_ = (work_.kv_bytes_per_token() / bytes).count();
    head_per_row_ = (work_.head_flops(1) / flops).count();
    head_ = work_.head_bytes() * per_byte_;
    embedding_row_ = (Bytes{std::int64_t{shape.hidden} * shape.weight_element_bytes} / bytes).count();
  }

  [[nodiscard]] StepTime step(const Work& work) const {
    const Tokens fresh = work.tokens();
    if (fresh == Tokens{0}) return {};
    const LayerWork::Attention attention = LayerWork::attention(work, fresh);
    const KernelTime linear{linear_per_token_ * static_cast<double>(fresh.count()),
                            work_.weight_bytes(fresh) * per_byte_};
    const KernelTime attending{pair_ * attention.pairs, kv_token_ * attention.kv_tokens};
    double layer = linear.alone() + attending.alone();
    if (!work.rebuilt.nothing()) {
      const KernelTime rebuild{work_.rebuild_flops(work.rebuilt).count() * per_flop_,
                               work_.rebuild_bytes(work.rebuilt) * per_byte_};
      layer = async(rebuild, linear, attending, rebuilding_);
    }
    const double head = work.samples > 0 ? std::max(head_per_row_ * static_cast<double>(work.samples), head_) : 0.0;
    return {Seconds{embedding_row_ * static_cast<double>(fresh.count())}, Seconds{layer}, Seconds{head}};
  }
  [[nodiscard]] LinkCost link() const { return link_; }
  [[nodiscard]] const Roofline& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}

  /// Above the FLOPs and above the bytes of matrix products and of attention: four lines.
  [[nodiscard]] StepFloor floor() const {
    const auto layers = static_cast<double>(work_.shape().layers);
    StepFloor floor{{}, layers * linear_per_token_, layers * work_.rebuild_flops({Tokens{1}}).count() * per_flop_};
    for (const bool flops : {false, true})
      for (const bool pairs : {false, true}) {
        const double token = embedding_row_ + (flops ? layers * linear_per_token_ : 0.0);
        const double context = layers * (pairs ? pair_ : kv_token_);
        const double weights = flops ? 0.0 : layers * work_.weight_bytes(Tokens{1}) * per_byte_;
        floor.lines.push_back({weights + head_, token, context, token, pairs ? layers * pair_ : 0.0});
      }
    return floor;
  }

 private:
  LayerWork work_;
  Rebuilding rebuilding_;
  LinkCost link_;
  // Seconds per unit, to avoid divisions in a step.
  double per_byte_ = 0.0;
  double per_flop_ = 0.0;
  double linear_per_token_ = 0.0;
  double pair_ = 0.0;
  double kv_token_ = 0.0;
  double head_per_row_ = 0.0;
  double head_ = 0.0;
  double embedding_row_ = 0.0;
};

static_assert(explain<Roofline>());

template <>
struct Default<roles::Cost> {
  using type = Roofline;
};

} // namespace sluice
