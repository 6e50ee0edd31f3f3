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
  std::array<double, 2> hosted_s{}; ///< exchange and attention on the host, by sub-batch

  /// How long the device computes.
  [[nodiscard]] constexpr double device_s() const { return linear_s[0] + attention_s + linear_s[1]; }
  [[nodiscard]] constexpr double layer_s() const {
    return std::max(linear_s[0], hosted_s[1]) + std::max(attention_s + linear_s[1], hosted_s[0]);
  }
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
    exchange_s_ = (hosted_.exchanged_bytes / link.rate).count();
    launches_s_ = 2 * (link.per_layer + link.per_segment).count(); // there and back
    attention_s_ = device_layer_s(0) - linear_s(device_.tokens().count());
  }

  [[nodiscard]] SubBatches of(const HostedShare& share) const {
    SubBatches times;
    const double first_s = device_layer_s(share.decodes[0]);
    times.attention_s = std::clamp(attention_s_, 0.0, first_s);
    times.linear_s = {first_s - times.attention_s, linear_s(share.decodes[1])};
    times.hosted_s = {hosted_s(share.decodes[0], share.context[0]), hosted_s(share.decodes[1], share.context[1])};
    return times;
  }
  /// Time on the link of a layer's queries, keys, values and outputs.
  [[nodiscard]] double exchanged_s() const { return exchange_s_ * static_cast<double>(hosted_.decodes()); }

  /// The best of three divisions: all hosted decodes in sub-batch 1, all in sub-batch 0 (so that the device reads its
  /// weights once), or each in the sub-batch whose host has more time left, in the batch's order (NEO). Optimal
  /// divisions are partition problems.
  [[nodiscard]] HostedShare divide() const {
    std::array<HostedShare, 3> shares;
    for (const Tokens context : hosted_.contexts) {
      shares[0].add(1, context);
      shares[1].add(0, context);
    }
    // The weights decide how long matrix products of decodes take, so half of the decodes stand for any number.
    const double beside_1_s = device_layer_s(hosted_.decodes() / 2) - std::max(attention_s_, 0.0);
    const double beside_0_s = std::max(attention_s_, 0.0) + linear_s((hosted_.decodes() + 1) / 2);
    for (const Tokens context : hosted_.contexts) {
      const double left_0 = beside_0_s - hosted_s(shares[2].decodes[0], shares[2].context[0]);
      const double left_1 = beside_1_s - hosted_s(shares[2].decodes[1], shares[2].context[1]);
      shares[2].add(left_1 >= left_0 ? 1 : 0, context);
    }
    return *std::min_element(shares.begin(), shares.end(), [this](const HostedShare& a, const HostedShare& b) {
      return of(a).layer_s() < of(b).layer_s();
    });
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
  [[nodiscard]] double hosted_s(std::int64_t decodes, Tokens context) const {
    if (decodes == 0) return 0;
    return launches_s_ + exchange_s_ * static_cast<double>(decodes) + token_s_ * static_cast<double>(context.count());
  }

  const Cost& cost_;
  Work device_;
  HostedWork hosted_;
  double token_s_ = 0, exchange_s_ = 0, launches_s_ = 0, attention_s_ = 0;
};

/// How long an iteration takes by `cost`, with the host's attention. Without it this is the cost model's own answer.
template <class Cost>
[[nodiscard]] StepTime step_time(const Cost& cost, const Work& work) {
  if (work.hosted.nothing()) return cost.step(work);
  Work all = work;
  all.decodes += work.hosted.decodes();
  all.decode_context += Tokens{work.hosted.decodes()};
  all.contexts = {};
  StepTime time = cost.step(all); // for the parts before and after the layers
  const SubBatchTimes<Cost> times(cost, work);
  const SubBatches layer = times.of(times.divide());
  time.layer = Seconds{layer.device_s()};
  time.waits = Seconds{std::max(0.0, layer.layer_s() - layer.device_s())};
  constexpr double most_on_link = 0.9; // it must stay below 1, and more would mean that the layer waits for the link
  time.on_link = std::min(most_on_link, time.on_link + times.exchanged_s() / layer.layer_s());
  return time;
}

} // namespace sluice
