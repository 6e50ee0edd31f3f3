// SPDX-License-Identifier: Apache-2.0
// LoadResultReader: reads the results that load generators write about the requests that they sent.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"
#include "sluice/workload/reader.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// A request as its client saw it. In `record`, `queued` and `scheduled` are the time when the client sent it.
struct ClientRecord {
  VllmRunRecord record;
  double due_s = 0; ///< when the client planned to send it, on any clock; when it did send it, if the file has no such
                    ///< time
};

/// The requests that were served, in the order in which they were planned, and the number of failed ones.
struct LoadResult {
  std::string_view kind; ///< the program that wrote the result
  std::vector<ClientRecord> requests;
  std::int64_t failed = 0;
};

namespace detail {

/// Returns the first of several numbers that exists.
double first_of(std::initializer_list<double> numbers);

} // namespace detail

/// Reads the result of a load generator: `vllm bench serve` or a run of `vllm bench sweep serve` (with
/// --save-detailed), GuideLLM, AIPerf, or BLIS TraceV2. The content identifies the program. Failed requests are counted
/// and left out.
Expected<LoadResult> read_load_result(const std::string& path);

/// The requests of such a result as a workload: each arrives when its client planned to send it.
class LoadResultReader {
 public:
  explicit LoadResultReader(LoadResult result) : requests_(std::move(result.requests)) {}

  static Expected<LoadResultReader> open(const std::string& path);
  Expected<std::optional<RequestSpec>> next();

 private:
  std::vector<ClientRecord> requests_;
  std::size_t next_ = 0;
};

static_assert(TraceReader<LoadResultReader>);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/load_result.inl.hpp"
#endif
