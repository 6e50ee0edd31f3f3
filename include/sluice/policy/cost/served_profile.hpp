// SPDX-License-Identifier: Apache-2.0
// ServedProfile: measured kernels as a serving engine runs them: padded, replayed as graphs, with decodes of unequal
// length, and with experts.
#pragma once

#include "sluice/policy/cost/served_tables.hpp"
#include "sluice/policy/cost/table_profile.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace sluice {

/// What a server does with the kernels of a profile. Each part is optional, and without any the times are the
/// profile's.
struct Serving {
  std::optional<CudaGraphs> graphs;
  bool pads = true;  ///< whether a graph computes its whole size
  bool saves = true; ///< whether a graph saves launches
  std::optional<DecodeTail> tail;
  std::optional<SkewTable> skew; ///< instead of `tail`
  std::optional<ExpertTable> experts;
};

/// `TableProfile` under `Serving`. Nothing here is fitted to a run: every part comes from measurements of kernels, from
/// the server's settings or from the device's data sheet (docs/fidelity.md).
class ServedProfile {
 public:
  using role = roles::Cost;
  struct State {};
  static constexpr bool reads_contexts = true;

  ServedProfile(TableProfile kernels, Serving serving, int layers)
      : kernels_(std::move(kernels)), serving_(std::move(serving)), layers_(layers) {
    SLUICE_ASSERT(layers >= 1, "layers");
  }

  [[nodiscard]] StepTime step(const Work& work) const { return step_of(work, padded(work)); }
  /// The same, computed on `tokens` tokens: a server pads an engine's batch to that of another in lock step.
  [[nodiscard]] StepTime step_of(const Work& work, std::int64_t tokens) const {
    StepTime time = kernels_.step_of(work, tokens);
    const bool chunk = has_chunk(work);
    if (serving_.tail) {
      // A graph of decodes alone holds attention too, for as many sequences as it was captured with.
      time.layer += Seconds{serving_.tail->seconds(work.contexts, chunk, chunk ? work.decodes : tokens)};
    } else if (serving_.skew) {
      const auto decoding = [&](double context) {
        return kernels_.times().attention.decoding(static_cast<double>(work.decodes), context);
      };
      time.layer += Seconds{serving_.skew->seconds(work, decoding)};
    }
    if (serving_.experts) time.layer += Seconds{serving_.experts->seconds(static_cast<double>(tokens))};
    if (serving_.graphs && serving_.saves) {
      const int pieces = kernels_.times().layer_launches * layers_;
      const double saved = serving_.graphs->saved(work.tokens().count(), !chunk, pieces, pieces + layers_);
      time.layer = std::max(Seconds{0}, time.layer - Seconds{saved / layers_});
    }
    return time;
  }
  /// The tokens on which the kernels run.
  [[nodiscard]] std::int64_t padded(const Work& work) const {
    const std::int64_t tokens = work.tokens().count();
    return serving_.graphs && serving_.pads && tokens > 0 ? serving_.graphs->padded(tokens) : tokens;
  }
  [[nodiscard]] LinkCost link() const { return kernels_.link(); }
  [[nodiscard]] const ServedProfile& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}

  [[nodiscard]] const Serving& serving() const { return serving_; }
  [[nodiscard]] int layers() const { return layers_; }

 private:
  /// A chunk of one token is a decode for the kernel.
  static bool has_chunk(const Work& work) {
    return std::any_of(work.chunks.begin(), work.chunks.end(),
                       [](const ChunkWork& chunk) { return chunk.fresh > Tokens{1}; });
  }

  TableProfile kernels_;
  Serving serving_;
  int layers_;
};

static_assert(explain<ServedProfile>());

} // namespace sluice
