// SPDX-License-Identifier: Apache-2.0
// LoadResult: what load generators write about the requests that they sent.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
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
  std::int64_t warm_up = 0;       ///< requests of the generator's warm-up, which are left out, too
  std::int64_t without_first = 0; ///< requests whose first token has no time (no streaming); `first_token` is the last
                                  ///< one's
};

namespace detail {

/// Returns the first of several numbers that exists.
double first_of(std::initializer_list<double> numbers);

} // namespace detail

/// Reads the result of a load generator (`trace_kinds`). The content identifies the program. Failed requests and those
/// of a warm-up are counted and left out. `benchmark`: the one to read of a result with several, from 1; 0: there is
/// only one.
Expected<LoadResult> read_load_result(const std::string& path, std::int64_t benchmark = 0);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/load_result.inl.hpp"
#endif
