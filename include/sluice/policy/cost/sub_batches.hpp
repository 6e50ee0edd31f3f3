// SPDX-License-Identifier: Apache-2.0
// SubBatches: an iteration in which the host's processor attends some decodes, as two sub-batches (NEO).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/cost/work.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// One layer of NEO's asymmetric pipelining (Jiang et al., "NEO: Saving GPU Memory Crisis with CPU Offloading for
/// Online LLM Inference", MLSys 2025, arXiv 2411.01142). The device alternates between two sub-batches. Sub-batch 0 has
/// all prompts, the decodes that the device attends, and some that the host attends; sub-batch 1 has the other decodes
/// that the host attends. While the device computes sub-batch 0's matrix products, the host attends sub-batch 1; while
/// the device attends sub-batch 0 and computes sub-batch 1's matrix products, the host attends sub-batch 0. Each
/// sub-batch reads the layer's weights.
struct SubBatches {
  std::array<double, 2> linear_s{}; ///< matrix products, by sub-batch
  double attention_s = 0;           ///< sub-batch 0's on the device
  std::array<double, 2> hosted_s{}; ///< launch, exchange and attention on the host, by sub-batch

  /// How long the device computes.
  [[nodiscard]] constexpr double device_s() const { return linear_s[0] + attention_s + linear_s[1]; }
  /// How long the layer takes, with what the device waits for the host.
  [[nodiscard]] constexpr double layer_s() const {
    return std::max(linear_s[0], hosted_s[1]) + std::max(attention_s + linear_s[1], hosted_s[0]);
  }
  /// How much longer the host could attend each sub-batch before the device waits; below 0, the device waits.
  [[nodiscard]] constexpr std::array<double, 2> left_s() const {
    return {attention_s + linear_s[1] - hosted_s[0], linear_s[0] - hosted_s[1]};
  }
  /// The sub-batch whose host has more time left.
  [[nodiscard]] constexpr std::size_t next() const { return left_s()[1] > left_s()[0] ? 1 : 0; }
};

/// What each of two sub-batches has of the decodes that the host attends.
struct HostedShare {
  std::array<std::int64_t, 2> decodes{};
  std::array<Tokens, 2> context{};

  constexpr void add(std::size_t sub_batch, Tokens tokens) {
    ++decodes[sub_batch];
    context[sub_batch] += tokens;
  }
};

/// The times of a layer, by how the hosted decodes are divided. Asks `cost` for the device's work alone.
template <class Cost>
class SubBatchTimes {
 public:
  SubBatchTimes(const Cost& cost, const Work& work) : cost_(cost), device_(work), hosted_(work.hosted) {
    device_.hosted = {};
    device_.contexts = {};
    device_.rebuilds = {};
    const LinkCost link = cost.link();
    SLUICE_ASSERT(link.host_attention_rate.count() > 0 && link.rate.count() > 0, "a host that attends, and a link");
    token_s_ = (hosted_.token_bytes / link.host_attention_rate).count();
    launch_s_ = link.host_attention_launch.count();
    batches_ = link.host_attention_batches;
    if (batches_ > 1) exchange_s_ = (hosted_.exchanged_bytes / link.rate).count();
    attention_s_ = std::max(0.0, device_layer_s(0) - linear_s(device_.tokens().count()));
  }

  [[nodiscard]] SubBatches of(const HostedShare& share) const {
    SubBatches times;
    const double first_s = device_layer_s(share.decodes[0]);
    times.attention_s = std::min(attention_s_, first_s);
    times.linear_s = {first_s - times.attention_s, linear_s(share.decodes[1])};
    times.hosted_s = {hosted_s(share.decodes[0], share.context[0]), hosted_s(share.decodes[1], share.context[1])};
    return times;
  }
  /// Time on the link of a layer's queries, keys, values and outputs.
  [[nodiscard]] double exchanged_s(std::int64_t decodes) const { return exchange_s_ * static_cast<double>(decodes); }

  /// NEO's division: the first hosted decode is in sub-batch 1, and each further one, in the batch's order, in the
  /// sub-batch whose host has more time left. Sub-batch 1 is never empty: NEO's single batch has no hosted decodes. A
  /// device with one batch (`Device::host_attention_batches`) has all of them in sub-batch 0, so that a layer takes its
  /// matrix products, and then the longer of the device's attention and the host's. Nothing crosses its link for them.
  [[nodiscard]] HostedShare divide() const {
    HostedShare share;
    std::size_t next = first();
    for (const Tokens context : hosted_.contexts) {
      share.add(next, context);
      next = this->next(share);
    }
    return share;
  }
  [[nodiscard]] int batches() const { return batches_; }
  /// The sub-batch of the first hosted decode, and of the one that follows those of a share.
  [[nodiscard]] std::size_t first() const { return batches_ == 1 ? 0 : 1; }
  [[nodiscard]] std::size_t next(const HostedShare& share) const { return batches_ == 1 ? 0 : of(share).next(); }
  /// How long an iteration with this division takes; of the device's work alone if the host attends none.
  [[nodiscard]] StepTime step(const HostedShare& share) const {
    Work all = device_;
    const std::int64_t hosted = share.decodes[0] + share.decodes[1];
    all.decodes += hosted;
    all.decode_context += Tokens{hosted};
    if (all.tokens().count() == 0) return {};
    StepTime time = cost_.step(all); // for the parts before and after the layers
    if (hosted == 0) return time;
    const SubBatches layer = of(share);
    time.layer = Seconds{layer.device_s()};
    time.waits = Seconds{std::max(0.0, layer.layer_s() - layer.device_s())};
    constexpr double most_on_link = 0.9; // it must stay below 1, and more would mean that the layer waits for the link
    time.on_link = std::min(most_on_link, time.on_link + exchanged_s(hosted) / layer.layer_s());
    return time;
  }

 private:
  /// The device's own work, with so many more tokens that it does not attend.
  [[nodiscard]] double device_layer_s(std::int64_t more) const {
    Work work = device_;
    work.decodes += more;
    work.decode_context += Tokens{more};
    return work.tokens().count() > 0 ? cost_.step(work).layer.count() : 0.0;
  }
  /// Matrix products of single tokens: the time of a layer in which each reads only its own KV.
  [[nodiscard]] double linear_s(std::int64_t tokens) const {
    Work work;
    work.decodes = tokens;
    work.decode_context = Tokens{tokens};
    return tokens > 0 ? cost_.step(work).layer.count() : 0.0;
  }
  /// A sub-batch without hosted decodes launches nothing on the host.
  [[nodiscard]] double hosted_s(std::int64_t decodes, Tokens context) const {
    if (decodes == 0) return 0;
    return launch_s_ + exchanged_s(decodes) + token_s_ * static_cast<double>(context.count());
  }

  const Cost& cost_;
  Work device_;
  HostedWork hosted_;
  double token_s_ = 0, exchange_s_ = 0, launch_s_ = 0, attention_s_ = 0;
  int batches_ = 2;
};

/// How long an iteration takes by `cost`, with the host's attention. Without it this is the cost model's own answer.
template <class Cost>
[[nodiscard]] StepTime step_time(const Cost& cost, const Work& work) {
  if (work.hosted.nothing()) return cost.step(work);
  const SubBatchTimes<Cost> times(cost, work);
  return times.step(times.divide());
}

} // namespace sluice
