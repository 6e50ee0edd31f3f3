// SPDX-License-Identifier: Apache-2.0
// Workload: what is asked for and when, and how each client behaves.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/workload/request.hpp"

#include "load/options.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace loading {

/// What a client does beside reading its answer as it comes.
enum class Manner : std::uint8_t {
  reads,          ///< nothing else
  leaves_waiting, ///< leaves before the answer has begun
  leaves_prefill, ///< leaves when it has begun, before its first token if that can be seen
  leaves_decode,  ///< leaves after some tokens
  reads_slowly,
  reads_never
};
[[nodiscard]] constexpr bool leaves(Manner manner) {
  return manner == Manner::leaves_waiting || manner == Manner::leaves_prefill || manner == Manner::leaves_decode;
}
[[nodiscard]] constexpr bool slow(Manner manner) {
  return manner == Manner::reads_slowly || manner == Manner::reads_never;
}

struct Planned {
  sluice::RequestSpec spec;
  Manner manner = Manner::reads;
  std::int64_t leave_after = 0; ///< pieces of text, of `leaves_decode`
};

struct Workload {
  std::string name;
  std::string taken_for;         ///< how a trace was read (taken_for_text)
  std::vector<Planned> requests; ///< in the order of arrival
};

sluice::Expected<Workload> read_workload(const Options& options);

/// Gives `leave` and `slow` of the requests their manners, drawn by `seed`.
void draw_manners(std::vector<Planned>& requests, double leave, double slow, std::uint64_t seed);

} // namespace loading
