// SPDX-License-Identifier: Apache-2.0
// Roofline: FLOPs and bytes of the model's shape over the device's achieved rates (the default).
#pragma once

#include "sluice/cost/cost_model.hpp"
#include "sluice/cost/layer_work.hpp"
#include "sluice/device/device.hpp"
#include "sluice/model/shape.hpp"

#include <algorithm>

namespace sluice {

/// The share of the device's peaks that kernels reach, where the device does not state its own.
struct RooflineEfficiency {
  /// 65 of the A5000's 111.1 TFLOP/s in prefill (OrbitFlow, section 4): a serving engine, not a matrix benchmark.
  double compute = 65.0 / 111.1;
  /// 926 of the RTX 4090's 1008 GB/s: one decoder layer's matrices at one token, 436 MB in 471 us (the kernel times of
  /// LLMServingSim 2.0's profile of Llama-3.1-8B).
  double bandwidth = 926.0 / 1008.0;
};

/// Each layer is its matrix products, then its attention; each of the two is bound by FLOPs or by bytes, whichever
/// takes longer (Williams et al., "Roofline", CACM 2009). The two are added and not overlapped: they are kernels that
/// follow one another on one stream.
///
/// The link is the device's host-to-device rate, and one segment's cost per transfer of a layer.
class Roofline {
 public:
  using role = roles::Cost;
  struct State {};

  Roofline(const ModelShape& shape, const Device& device, RooflineEfficiency efficiency = {})
      : work_(shape),
        flops_per_second_(device.compute_rate(efficiency.compute)),
        bytes_per_second_(device.memory_rate(efficiency.bandwidth)),
        link_{device.host_to_device, device.segment_cost},
        embedding_row_(Bytes{std::int64_t{shape.hidden} * shape.weight_element_bytes} / bytes_per_second_) {
    SLUICE_ASSERT(flops_per_second_.count() > 0 && bytes_per_second_.count() > 0, "a device with positive rates");
  }

  [[nodiscard]] StepTime step(const Work& work) const {
    const Tokens tokens = work.tokens() + work.rebuilt;
    if (tokens == Tokens{0}) return {};
    const LayerWork::Attention attention = work_.attention(work);
    StepTime time;
    time.before = embedding_row_ * static_cast<double>(work.tokens().count());
    time.layer = slower(work_.linear_flops(tokens), work_.weight_bytes(tokens)) +
                 slower(attention.flops, static_cast<double>(attention.kv.count()));
    if (work.samples > 0) time.after = slower(work_.head_flops(work.samples), work_.head_bytes());
    return time;
  }
  [[nodiscard]] LinkCost link() const { return link_; }
  [[nodiscard]] const Roofline& believe(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}

 private:
  [[nodiscard]] Seconds slower(Flops flops, double bytes) const {
    return std::max(flops / flops_per_second_, Seconds{bytes / bytes_per_second_.count()});
  }

  LayerWork work_;
  FlopsPerSecond flops_per_second_;
  BytesPerSecond bytes_per_second_;
  LinkCost link_;
  Seconds embedding_row_;
};

static_assert(explain<Roofline>());

} // namespace sluice
