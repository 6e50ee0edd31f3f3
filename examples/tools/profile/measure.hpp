// SPDX-License-Identifier: Apache-2.0
// measure: what a model takes on this machine, as a folder that sluice-compare reads.
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
  std::string model = "tiny"; ///< or a folder with weights, or a name: its shape, drawn
  std::string out;            ///< the folder, made where it is not there
  int threads = 1;
  double seconds = 30; ///< to measure for; what must be measured is, however long it takes
  double link = 0;     ///< bytes a second that the copy engine is told; 0: as fast as memory is
  bool cuda = false;   ///< a GPU, and not this machine's processor
  sluice::Products products = sluice::Products::invariant; ///< of a GPU
  std::optional<std::uint64_t> random_weights{};           ///< the seed: the model is drawn
  bool quiet = false;
};

/// Measures, and writes the files of a `Bundle`. Warns on standard error where repeated timings spread. Errors name the
/// flag: no such model, and a folder that cannot be written to or is a model's.
sluice::Status measure(const MeasureOptions& options);

/// The same of a subject that is there. `config`: of the model, as config.json has it.
sluice::Status measure(const MeasureOptions& options, Subject& subject, const nlohmann::json& config, Bundle& bundle);

/// The model's config as its readers know it, of its shape alone.
nlohmann::json config_of(const sluice::ModelShape& shape);

} // namespace profiled
