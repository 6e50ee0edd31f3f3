// SPDX-License-Identifier: Apache-2.0
// Refusals: the memory that refused requests would need.
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

/// Adds refused requests' needs to their reasons and, if nothing ran, reports the flag that is too small. An engine's
/// own reason counts blocks and asks for smaller requests, which does not help the user.
class Refusals {
 public:
  Refusals(const Options& options, const engines::System& system, const engines::Setup& setup,
           const sluice::LocalMemory& memory)
      : options_(options), system_(system), setup_(setup), memory_(memory) {}

  /// The error if nothing ran. `ran`: the engine's status.
  std::optional<sluice::Error> explain(const Workload& workload, const sluice::Status& ran, Results& results);

 private:
  /// One request's need; at most one member is set, none if more memory does not help.
  struct Need {
    std::optional<sluice::LayerBlocks> device; ///< KV memory in addition to all weights
    std::optional<sluice::LayerBlocks> host;   ///< set if no device memory is enough
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
  std::map<std::int64_t, Need> needs_; ///< by the request's length, prompt plus output
};

} // namespace running
