// SPDX-License-Identifier: Apache-2.0
// OrbitFlowReader: reads the traces of OrbitFlow's artifact.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/nlohmann/json_members.hpp"
#include "sluice/workload/orbitflow_header.hpp"
#include "sluice/workload/reader.hpp"

#include <istream>
#include <memory>
#include <string>

namespace sluice {

/// A trace of OrbitFlow's artifact: one JSON object with the server's limits and `requests`, an object of requests in
/// the order of arrival, each with `input_length`, `output_length` and `arrival_time`.
///
/// Arrivals in the trace count engine steps. This reader converts them to wall-clock seconds with a given step time, so
/// that all systems of a comparison see the same arrivals. It reads the file twice, first for the header (which may
/// follow the requests) and then for the requests, so that memory is constant.
class OrbitFlowReader {
 public:
  /// Reads the header and stops before the first request. `step` is the time of one engine step.
  static Expected<OrbitFlowReader> from_stream(std::unique_ptr<std::istream> stream, std::string name, Seconds step);

  static Expected<OrbitFlowReader> open(const std::string& path, Seconds step);

  [[nodiscard]] const OrbitFlowHeader& header() const { return header_; }

  Expected<std::optional<RequestSpec>> next();

 private:
  OrbitFlowReader(std::unique_ptr<std::istream> stream, std::string name, Seconds step);

  Status read_header();

  Status count_requests(JsonMembers& members);

  /// Rewinds, and skips to the first request. The members have already been read once, so they exist.
  Status find_requests();

  std::unique_ptr<std::istream> stream_;
  JsonMembers members_;
  Seconds step_;
  OrbitFlowHeader header_;
  detail::ArrivalClock clock_;
};

static_assert(TraceReader<OrbitFlowReader>);

/// Reads a trace's limits before the step time is known, because the budget determines the base SLO and the step time.
Expected<OrbitFlowHeader> read_orbitflow_header(const std::string& path);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/orbitflow_json.inl.hpp"
#endif
