// SPDX-License-Identifier: Apache-2.0
// Readers over a text in memory, for tests and fuzz targets.
#pragma once

#include "sluice/workload/csv.hpp"
#include "sluice/workload/nlohmann/orbitflow_json.hpp"

#include <memory>
#include <sstream>
#include <string>
#include <utility>

namespace sluice_test {

inline sluice::LineReader lines_of(const std::string& text, std::string name) {
  return sluice::LineReader{std::make_unique<std::istringstream>(text), std::move(name)};
}

/// A reader of lines (Mooncake, vLLM run) over `text`.
template <class Reader>
Reader reader_of(const std::string& text) {
  return Reader{lines_of(text, "trace")};
}
inline sluice::CsvReader azure_of(const std::string& text) {
  return sluice::CsvReader{lines_of(text, "trace"), sluice::azure_columns()};
}

inline sluice::Expected<sluice::OrbitFlowReader> orbitflow_of(const std::string& text, double step = 1.0) {
  return sluice::OrbitFlowReader::from_stream(std::make_unique<std::istringstream>(text), "trace",
                                              sluice::Seconds{step});
}

} // namespace sluice_test
