// SPDX-License-Identifier: Apache-2.0
// TableProfile: an iteration as the sum of its measured kernels.
#pragma once

#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/cost/measured_grid.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Where in an iteration a kernel runs, and how often.
enum class KernelPlace : std::uint8_t { before, layer, after, per_sequence, rebuilt };

struct KernelName {
  std::string_view name;
  KernelPlace place = KernelPlace::layer;
  int times = 1; ///< per layer, or per iteration
  bool required = true;
  bool part_of_mlp = false; ///< missing from the profile of a mixture of experts
};

/// The kernels of a Llama- or Qwen3-like decoder, by the names of LLMServingSim 2.0's profiles. A layer normalises
/// twice (before attention and before the MLP); Qwen3 also normalises Q and K, one kernel each.
///
/// Three more are measured by sluice-profile for this machine's decoder, which is called one layer at a time:
/// `whole_layer` is all of a layer except attention, and `lm_head` is then measured with the last norm; `iteration` is
/// the time of an iteration beyond everything measured by name (block tables, locks, waking threads); `kv_proj` is what
/// a layer takes longer for tokens of which only K and V are computed, from hidden states in the device's memory.
inline constexpr std::array<KernelName, 15> profiled_kernels{{{"embedding", KernelPlace::before},
                                                              {"iteration", KernelPlace::before, 1, false},
                                                              {"whole_layer", KernelPlace::layer, 1, false},
                                                              {"layernorm", KernelPlace::layer, 2},
                                                              {"qkv_proj", KernelPlace::layer},
                                                              {"qk_norm", KernelPlace::layer, 2, false},
                                                              {"rotary_emb", KernelPlace::layer},
                                                              {"o_proj", KernelPlace::layer},
                                                              {"gate_up_proj", KernelPlace::layer, 1, true, true},
                                                              {"act_fn", KernelPlace::layer, 1, true, true},
                                                              {"down_proj", KernelPlace::layer, 1, true, true},
                                                              {"kv_proj", KernelPlace::rebuilt, 1, false},
                                                              {"final_layernorm", KernelPlace::after},
                                                              {"lm_head", KernelPlace::per_sequence},
                                                              {"sampler", KernelPlace::per_sequence}}};

/// The parts of a measured iteration, each a sum of kernels.
struct KernelTimes {
  TabulatedLine before;       ///< by tokens
  TabulatedLine layer;        ///< by tokens, without attention
  TabulatedLine after;        ///< by tokens
  TabulatedLine per_sequence; ///< by sequences in the batch
  AttentionGrid attention;
  std::optional<TabulatedLine> rebuilt; ///< by tokens of which a layer computes only K and V, if measured
  int layer_launches = 0;               ///< kernels of `layer`, which are launched one after the other
};

/// An iteration is the sum of its kernels, back to back: a serving engine that schedules a step ahead keeps the device
/// busy, so only kernels take time. `read_table_profile` loads one.
///
/// Attention is measured for one prompt chunk together with decodes. Several chunks share one kernel launch: the
/// largest is looked up with the decodes, and each other chunk adds its time alone beyond an empty kernel. (Looking up
/// one chunk of all their tokens would let every prompt attend to the others: a third too much for two of 1,024.)
/// Decodes are looked up at their mean context, because attention reads KV in proportion to the sum of the contexts.
/// This ignores that the longest decode outlives the others, that a server pads a batch, and that it replays graphs:
/// `ServedProfile` adds what a server does (docs/fidelity.md).
class TableProfile {
 public:
  using role = roles::Cost;
  struct State {};

  TableProfile(KernelTimes times, LinkCost link) : times_(std::move(times)), link_(link) {}

  [[nodiscard]] StepTime step(const Work& work) const { return step_of(work, work.tokens().count()); }
  /// The same for a batch whose kernels, except attention and head, run on `tokens` tokens because it is padded.
  [[nodiscard]] StepTime step_of(const Work& work, std::int64_t tokens) const {
    if (tokens == 0) return {};
    // Without `kv_proj`, tokens that need just K and V pass through the whole layer too. That is too dear, about six
    // times for a layer whose K and V projections are a sixth of its FLOPs (OPT). Reading hidden states from device
    // memory (`rebuilt.read`) is part of both on a GPU; a processor's profile lacks it. If one request's tokens pass
    // the layer and another's need only K and V, the smaller number is lost: the sums are right if all rebuild the same
    // layers.
    const Tokens stored = std::max(Tokens{0}, work.rebuilt.projected - work.rebuilt.passed);
    const Tokens through = Tokens{tokens} + work.rebuilt.passed + (times_.rebuilt ? Tokens{0} : stored);
    const double stored_s = times_.rebuilt ? times_.rebuilt->at(stored.count()) : 0.0;
    std::int64_t embedded = tokens;
    for (const RebuiltWork& rebuild : work.rebuilds) embedded += rebuild.tokens.count();
    // Every sequence has a row in the output head, even a chunk that is not its prompt's last: vLLM computes the logits
    // of each sequence's last token and drops those that yield none.
    const auto sequences = work.decodes + static_cast<std::int64_t>(work.chunks.size());
    return {Seconds{times_.before.at(embedded)}, Seconds{times_.layer.at(through.count()) + stored_s + attention(work)},
            Seconds{times_.after.at(tokens) + times_.per_sequence.at(sequences)}};
  }
  [[nodiscard]] LinkCost link() const { return link_; }
  [[nodiscard]] const TableProfile& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
  [[nodiscard]] const KernelTimes& times() const { return times_; }

  /// Which size of this iteration lies furthest beyond the measured points that its time is made of. Tokens that are
  /// rebuilt do not count.
  [[nodiscard]] BeyondGrid beyond(const Work& work) const {
    BeyondGrid worst;
    worst.add("tokens in an iteration", static_cast<double>(work.tokens().count()),
              static_cast<double>(times_.layer.last()));
    worst.add("batch", static_cast<double>(work.decodes + static_cast<std::int64_t>(work.chunks.size())),
              static_cast<double>(times_.per_sequence.last()));
    const Attended attended(work);
    if (attended.largest == nullptr) {
      if (attended.decodes > 0) times_.attention.beyond(0.0, 0.0, attended.count(), attended.context(), worst);
      return worst;
    }
    for (const ChunkWork& chunk : work.chunks) {
      if (chunk.fresh <= Tokens{1}) continue;
      const bool beside = &chunk == attended.largest;
      times_.attention.beyond(static_cast<double>(chunk.fresh.count()), static_cast<double>(chunk.cached.count()),
                              beside ? attended.count() : 0.0, beside ? attended.context() : 0.0, worst);
    }
    return worst;
  }

 private:
  /// An iteration as the attention's grid sees it: its decodes and its largest chunk.
  struct Attended {
    explicit Attended(const Work& work) : decodes(work.decodes) {
      before_fresh = work.decode_context - Tokens{work.decodes}; // the profile counts the tokens before the fresh one
      double largest_pairs = -1.0;
      for (const ChunkWork& chunk : work.chunks) {
        if (chunk.fresh <= Tokens{1}) { // the kernel treats one token of one sequence as a decode
          decodes += chunk.fresh.count();
          before_fresh += chunk.cached * chunk.fresh.count();
        } else if (pairs(chunk) > largest_pairs) {
          largest = &chunk;
          largest_pairs = pairs(chunk);
        }
      }
    }
    [[nodiscard]] double count() const { return static_cast<double>(decodes); }
    [[nodiscard]] double context() const {
      return decodes > 0 ? static_cast<double>(before_fresh.count()) / count() : 0.0;
    }

    std::int64_t decodes;
    Tokens before_fresh{0};
    const ChunkWork* largest = nullptr;
  };

  [[nodiscard]] double attention(const Work& work) const {
    const Attended attended(work);
    const double count = attended.count(), context = attended.context();
    if (attended.largest == nullptr) return attended.decodes > 0 ? times_.attention.decoding(count, context) : 0.0;
    double seconds = alone_or_beside(*attended.largest, count, context);
    for (const ChunkWork& chunk : work.chunks) {
      if (&chunk == attended.largest || chunk.fresh <= Tokens{1}) continue;
      seconds += std::max(0.0, alone_or_beside(chunk, 0.0, 0.0) - times_.attention.floor());
    }
    return seconds;
  }
  [[nodiscard]] double alone_or_beside(const ChunkWork& chunk, double decodes, double context) const {
    return times_.attention.chunk(static_cast<double>(chunk.fresh.count()), static_cast<double>(chunk.cached.count()),
                                  decodes, context);
  }
  /// The (query, key) pairs of a chunk, approximately.
  static double pairs(const ChunkWork& chunk) {
    const auto fresh = static_cast<double>(chunk.fresh.count());
    return fresh * (static_cast<double>(chunk.cached.count()) + 0.5 * fresh);
  }

  KernelTimes times_;
  LinkCost link_;
};

static_assert(explain<TableProfile>());

} // namespace sluice
