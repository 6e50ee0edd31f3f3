// SPDX-License-Identifier: Apache-2.0
// eLLM's equations: memory, transfer volumes and times of a batch whose oldest tokens have no KV (EuroSys 2026, section
// 4).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/math.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/rebuild.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace sluice {

/// Whether an equation is taken as printed or as it must be meant. Each departure has a name, so that its effect can be
/// shown separately; `ellm_corrected` has none of them, `ellm_printed` all.
struct EllmForm {
  bool output_per_context_token = false; ///< (3): the output layer takes 2 s h V for one new token, which is 2 h V
  bool output_for_recomputed =
      false; ///< (2), (7), (8): 2 h V for each recomputed token; (9): 2 h V s in addition to the layers
  bool recompute_divided_by_layers = false; ///< (7): factor l2 / L on a volume that is already one layer's
  bool every_head_has_kv = false;           ///< (1): 4 L h s bytes, whatever the number of KV heads
  bool plain_matrices = false;              ///< 24 h^2 a token and layer: as many KV heads, and an MLP of 2 x 4 h
};
inline constexpr EllmForm ellm_corrected{};
inline constexpr EllmForm ellm_printed{true, true, true, true, true};

/// What the equations need to know of a batch: its size, and the sums of its requests' tokens and of their squares.
/// Real numbers, because a solver tries fractional batches.
struct BatchSums {
  double requests = 0;
  double tokens = 0;
  double squares = 0;

  constexpr BatchSums& add(Tokens context) {
    const auto count = static_cast<double>(context.count());
    requests += 1;
    tokens += count;
    squares += count * count;
    return *this;
  }
};

/// How the layers of the uncached tokens alternate: `recomputed` layers, then `swapped` ones, and so on.
struct LayerPair {
  int recomputed = 1; ///< l2
  int swapped = 1;    ///< l1

  [[nodiscard]] constexpr int period() const { return recomputed + swapped; }
  friend constexpr bool operator==(const LayerPair&, const LayerPair&) = default;
};
/// The six pairs that eLLM chooses among (section 4.3.1).
inline constexpr std::array<LayerPair, 6> ellm_pairs{{{1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 2}, {2, 3}}};

/// Seconds, FLOPs and bytes of a model by eLLM's equations. `r` is the share of every request's tokens, the oldest,
/// that have no KV.
///
/// In both forms recomputed tokens attend to their full square (4 h s^2 r^2, as printed), although causal attention
/// needs half of it; the evaluator's cost models count the half (policy/cost/rebuild.hpp).
class EllmEquations {
 public:
  explicit constexpr EllmEquations(const ModelShape& shape, EllmForm form = ellm_corrected)
      : form_(form),
        layers_(shape.layers),
        hidden_(shape.hidden),
        vocabulary_(shape.vocabulary),
        attention_width_(form.plain_matrices ? shape.hidden : static_cast<double>(shape.heads) * shape.head_dim),
        matrix_flops_(form.plain_matrices ? 24.0 * hidden_ * hidden_
                                          : shape.linear_flops_per_token_per_layer().count()),
        kv_bytes_(form.every_head_has_kv ? 4.0 * hidden_
                                         : static_cast<double>(shape.kv_bytes_per_token_per_layer().count())) {}

  /// (1): bytes of the KV that exists.
  [[nodiscard]] constexpr double kv_bytes(const BatchSums& batch, double r) const {
    return kv_bytes_ * layers_ * batch.tokens * (1.0 - r);
  }
  /// M_o before a pair is chosen: 40 h b s r, the most that any pair takes.
  [[nodiscard]] constexpr double most_workspace_bytes(const BatchSums& batch, double r) const {
    return workspace_bytes(batch, r, {2, 3});
  }
  /// M_o, 8 h b s r (l1 + l2): the swapped layers, those in recomputation, and both again while they decode (4.3.2).
  [[nodiscard]] constexpr double workspace_bytes(const BatchSums& batch, double r, LayerPair pair) const {
    return 2.0 * kv_bytes_ * pair.period() * batch.tokens * r;
  }

  /// (2): FLOPs to recompute the oldest share in every layer.
  [[nodiscard]] constexpr double recompute_volume(const BatchSums& batch, double r) const {
    return layers_ * recompute_layer(batch, r) + recomputed_output(batch, r);
  }
  /// (3): FLOPs to decode one token of each request.
  [[nodiscard]] constexpr double decode_volume(const BatchSums& batch) const {
    return layers_ * decode_layer(batch) +
           2.0 * hidden_ * vocabulary_ * (form_.output_per_context_token ? batch.tokens : batch.requests);
  }
  /// (4): seconds of an iteration.
  [[nodiscard]] constexpr double seconds(const BatchSums& batch, double r, FlopsPerSecond rate) const {
    return (recompute_volume(batch, r) + decode_volume(batch)) / rate.count();
  }
  /// (5): the objective, seconds of an iteration per request. For requests of one length it does not depend on the
  /// batch, and is least without recomputation: these FLOPs alone show no gain. A batch gains because weights are read
  /// once for all of it, which only a cost model of bytes knows (Roofline).
  [[nodiscard]] constexpr double seconds_per_request(const BatchSums& batch, double r, FlopsPerSecond rate) const {
    return seconds(batch, r, rate) / batch.requests;
  }
  /// (7): the time to recompute `layers` layers of the oldest share.
  [[nodiscard]] constexpr double recompute_seconds(const BatchSums& batch, double r, int layers,
                                                   FlopsPerSecond rate) const {
    const double share = form_.recompute_divided_by_layers ? static_cast<double>(layers) / layers_ : layers;
    return (recompute_layer(batch, r) * share + recomputed_output(batch, r)) / rate.count();
  }
  /// (8): FLOPs of the kernel that recomputes, K1.
  [[nodiscard]] constexpr double k1_volume(const BatchSums& batch, double r, LayerPair pair) const {
    return pair.recomputed * recompute_layer(batch, r) + recomputed_output(batch, r);
  }
  /// (9): FLOPs of the kernel that decodes, K2, without the output layer.
  [[nodiscard]] constexpr double k2_volume(const BatchSums& batch, LayerPair pair) const {
    return pair.period() * decode_layer(batch) +
           (form_.output_for_recomputed ? 2.0 * hidden_ * vocabulary_ * batch.tokens : 0.0);
  }
  /// How many of a fused kernel's `block` threads K1 gets.
  [[nodiscard]] constexpr int k1_threads(const BatchSums& batch, double r, LayerPair pair,
                                         int block = most_block_threads) const {
    return rebuilding_threads(k1_volume(batch, r, pair), k2_volume(batch, pair), block);
  }

 private:
  [[nodiscard]] constexpr double recompute_layer(const BatchSums& batch, double r) const {
    return matrix_flops_ * batch.tokens * r + 4.0 * attention_width_ * batch.squares * r * r;
  }
  [[nodiscard]] constexpr double recomputed_output(const BatchSums& batch, double r) const {
    return form_.output_for_recomputed ? 2.0 * hidden_ * vocabulary_ * batch.tokens * r : 0.0;
  }
  [[nodiscard]] constexpr double decode_layer(const BatchSums& batch) const {
    return matrix_flops_ * batch.requests + 4.0 * attention_width_ * (batch.tokens + batch.requests);
  }

  EllmForm form_;
  double layers_;
  double hidden_;
  double vocabulary_;
  double attention_width_;
  double matrix_flops_;
  double kv_bytes_; ///< K and V of one token in one layer
};

/// (6): the time to swap `layers` layers of `tokens` tokens, if all layers take alpha * tokens + beta.
[[nodiscard]] constexpr double ellm_swap_seconds(double tokens, int layers, int all_layers, double alpha, double beta) {
  SLUICE_ASSERT(all_layers > 0, "a model with layers");
  return (alpha * tokens + beta) * layers / all_layers;
}

/// The pair whose swapping and recomputing times differ least, the first of equals. `swap_s(pair)` and
/// `recompute_s(pair)` are for one period.
template <class Swap, class Recompute>
[[nodiscard]] LayerPair least_mismatch(Swap&& swap_s, Recompute&& recompute_s) {
  LayerPair best = ellm_pairs.front();
  double least = 0;
  for (std::size_t i = 0; i < ellm_pairs.size(); ++i) {
    const double mismatch = math::abs(swap_s(ellm_pairs[i]) - recompute_s(ellm_pairs[i]));
    if (i > 0 && mismatch >= least) continue;
    best = ellm_pairs[i];
    least = mismatch;
  }
  return best;
}

// BatchShare: how many requests run, and which share of each has no KV (eLLM, equation 1), solved exactly.

/// b and r: the batch size, and the share of every request's tokens, the oldest, that have no KV.
struct BatchShare {
  bool feasible = false;
  std::int64_t requests = 0;
  double uncached = 0;
  double seconds = 0; ///< of one iteration

  /// Tokens per second, the objective.
  [[nodiscard]] constexpr double rate() const {
    return feasible && seconds > 0 ? static_cast<double>(requests) / seconds : 0.0;
  }
};

/// Maximise b / T(b, r) subject to T(b, r) <= `limit_s(b)`, `room(b, r)` <= `room_budget`, `host_room(b, r)` <=
/// `host_budget`, b between `least` and `most`, r between 0 and `most_share`. A solver may use a real b on the way; the
/// answer is whole.
///
/// Requirements that are not checked: T does not fall as r grows; room grows with b and is monotone in r; host room
/// grows with both.
template <class P>
concept BatchShareProblem = requires(const P& problem, double requests, double share) {
  { problem.seconds(requests, share) } -> std::same_as<double>;
  { problem.room(requests, share) } -> std::same_as<double>;
  { problem.host_room(requests, share) } -> std::same_as<double>;
  { problem.limit_s(requests) } -> std::same_as<double>;
  { problem.room_budget } -> std::convertible_to<double>;
  { problem.host_budget } -> std::convertible_to<double>;
  { problem.most_share } -> std::convertible_to<double>;
  { problem.least } -> std::convertible_to<std::int64_t>;
  { problem.most } -> std::convertible_to<std::int64_t>;
};

/// The smallest share with which a batch of this size fits the device; infinity if none does. T grows with the share,
/// so the smallest share is the best.
template <BatchShareProblem P>
[[nodiscard]] double least_share(const P& problem, double requests) {
  const double whole = problem.room(requests, 0.0);
  if (whole <= problem.room_budget) return 0.0;
  const double none = std::numeric_limits<double>::infinity();
  const double most = problem.most_share;
  const double least = problem.room(requests, most);
  if (most <= 0.0 || least > problem.room_budget) return none;
  // Room is nearly linear in the share: start on a straight line, then bisect.
  double fails = 0.0, fits = most;
  const double line = most * (whole - problem.room_budget) / (whole - least);
  if (line < most && problem.room(requests, line) <= problem.room_budget) fits = line;
  const double close = line - 1e-9 * most;
  if (close > 0.0 && problem.room(requests, close) > problem.room_budget) fails = close;
  while (fits - fails > 1e-6 * most) {
    const double middle = 0.5 * (fits + fails);
    (problem.room(requests, middle) <= problem.room_budget ? fits : fails) = middle;
  }
  return fits;
}

/// A whole batch at its smallest share; not feasible if host memory or the SLO forbids it.
template <BatchShareProblem P>
[[nodiscard]] BatchShare at_least_share(const P& problem, std::int64_t requests) {
  const auto batch = static_cast<double>(requests);
  BatchShare answer{false, requests, least_share(problem, batch), 0};
  if (answer.uncached > problem.most_share || problem.host_room(batch, answer.uncached) > problem.host_budget)
    return answer;
  answer.seconds = problem.seconds(batch, answer.uncached);
  answer.feasible = answer.seconds <= problem.limit_s(batch);
  return answer;
}

/// Tries every batch size at its smallest share: exact, and linear in the batch. It is the reference, and the solver
/// that needs no library. eLLM's own solver is `SlsqpBatchShare` (policy/placement/nlopt).
struct ExactBatchShare {
  template <BatchShareProblem P>
  [[nodiscard]] BatchShare operator()(const P& problem) const {
    BatchShare best;
    for (std::int64_t requests = std::max<std::int64_t>(1, problem.least); requests <= problem.most; ++requests) {
      const BatchShare one = at_least_share(problem, requests);
      if (one.uncached > problem.most_share) break; // a larger batch needs even more room
      if (one.rate() > best.rate()) best = one;
    }
    return best;
  }
};

} // namespace sluice
