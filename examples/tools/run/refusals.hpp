// SPDX-License-Identifier: Apache-2.0
// Refusals: what requests that were refused would need.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/world/local/memory.hpp"

#include "run/job.hpp"
#include "run/options.hpp"
#include "run/results.hpp"
#include "run/workload.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace running {

/// Puts what refused requests would need into their reasons; and, where nothing ran, says so by the flag that is too
/// small. What an engine says of a refusal is about blocks, and reads as advice to ask for less.
class Refusals {
 public:
  Refusals(const Options& options, const engines::System& system, const engines::Setup& setup,
           const sluice::LocalMemory& memory)
      : options_(options), system_(system), setup_(setup), memory_(memory) {}

  /// Why nothing ran, where nothing did. `ran`: what the engine said as a whole.
  std::optional<sluice::Error> explain(const Workload& workload, const sluice::Status& ran, Results& results);

 private:
  /// What one request needs alone; one of the two at most, nothing where more memory does not help.
  struct Need {
    std::optional<sluice::LayerBlocks> device; ///< of KV, beside all weights
    std::optional<sluice::LayerBlocks> host;   ///< where no device memory is enough
  };

  void search(const Workload& workload, const Results& results);
  [[nodiscard]] std::string reason(const Need& need, std::optional<std::int64_t> longer) const;
  [[nodiscard]] sluice::Error too_little_device(std::size_t who, sluice::LayerBlocks blocks) const;
  [[nodiscard]] sluice::Error too_little_host(std::size_t who, sluice::LayerBlocks blocks) const;
  [[nodiscard]] sluice::Error no_kv() const;

  const Options& options_;
  const engines::System& system_;
  const engines::Setup& setup_;
  const sluice::LocalMemory& memory_;
  std::map<std::int64_t, Need> needs_; ///< by the request's length, prompt and output
};

} // namespace running
