// SPDX-License-Identifier: Apache-2.0
// measure: measures a model on this machine into a folder that sluice-compare reads.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/model/shape.hpp"

#include "profile/bundle.hpp"
#include "profile/subject.hpp"
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace profiled {

struct MeasureOptions {
  std::string model = "tiny"; ///< or a folder with weights, or a name: its shape with random weights
  std::string out;            ///< the folder, created if it does not exist
  int threads = 1;
  double seconds = 30; ///< time for repetitions; needed measurements are made even if they take longer
  double link = 0;     ///< limit of the copy engine in bytes per second; 0: no limit
  bool cuda = false;   ///< measures a GPU instead of this machine's processor
  sluice::Products products = sluice::Products::invariant; ///< on a GPU
  std::optional<std::uint64_t> random_weights{};           ///< seed of random weights
  bool quiet = false;
};

/// Measures, and writes the files of a `Bundle`. Warns on standard error if repeated timings spread. Errors name the
/// flag: an unknown model, and a folder that cannot be written to or is a model's.
sluice::Status measure(const MeasureOptions& options);

/// The same with an existing subject. `config`: the model's, as in config.json.
sluice::Status measure(const MeasureOptions& options, Subject& subject, const nlohmann::json& config, Bundle& bundle);

/// A model's config, as its readers accept it, from its shape.
nlohmann::json config_of(const sluice::ModelShape& shape);

} // namespace profiled
