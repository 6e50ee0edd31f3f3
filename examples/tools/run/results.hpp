// SPDX-License-Identifier: Apache-2.0
// Results: the results of a run, as JSON and as a table.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/world/cpu/copy_engine.hpp"
#include "sluice/world/local/model.hpp"

#include "run/options.hpp"
#include "run/workload.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace running {

struct Result {
  std::vector<std::int32_t> tokens; ///< generated
  bool done = false;
  bool unfinished = false; ///< not finished when the run was interrupted
  std::string reason;      ///< of a refusal
};

struct Results {
  std::vector<Result> requests; ///< in the given order
  sluice::CopyTotals moved;
  std::optional<sluice::GraphCounts> graphs; ///< on a GPU
  sluice::Bytes device_peak{0}, device_memory{0}, host_peak{0}, weights{0};
  std::optional<sluice::Bytes> peak_resident; ///< of this process; empty if the system does not report it
  sluice::Summary::State summary;
  sluice::Seconds end{0};

  [[nodiscard]] std::size_t done() const;
  [[nodiscard]] std::size_t unfinished() const;
};

/// The object that --json prints, on one line.
std::string json_text(const Options& options, const sluice::LocalModel& model, const Workload& workload,
                      const Results& results);

/// The table below the generated text.
std::string table_text(const Options& options, const sluice::LocalModel& model, const Results& results);

} // namespace running
