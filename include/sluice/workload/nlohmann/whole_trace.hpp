// SPDX-License-Identifier: Apache-2.0
// WholeTrace: requests that are read at once, because their file does not have them in a workload's order.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/load_result.hpp"
#include "sluice/workload/reader.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// The requests of a file in memory, those of a session one after the other.
///
/// Files of sessions have the turns of several sessions interleaved, in order of time. A workload has a session's
/// requests one after the other (`TraceReader`), and sessions may take hours, so the whole file is read.
class WholeTrace {
 public:
  struct Turn {
    RequestSpec spec; ///< `arrival` is on the file's clock; `session`, `turn`, `follows` are set by WholeTrace
    std::vector<ContentPiece> content{};
    std::optional<Seconds> delay{};    ///< from the end of the session's previous answer, if the file says it
    std::optional<Seconds> answered{}; ///< the end of this answer on the file's clock, if the file says it
  };

  /// A request of the session with this key; an empty key: of no session. Requests of a session are added in order.
  /// One of 0 tokens failed, and `complete` leaves it out.
  void add(const std::string& session, Turn turn);

  /// Orders all requests and counts the failed ones. The delay between two turns is the file's, or else the time from
  /// the end of the answer, or, if the file does not say when it ended, the time between the two arrivals. Returns an
  /// error if there is none.
  Status complete(const std::string& path);

  Expected<std::optional<RequestSpec>> next();
  [[nodiscard]] std::span<const ContentPiece> content() const { return turns_[next_ - 1].content; }

  /// Remarks on what was left out: "1 failed request left out". Empty if nothing was.
  std::string remark;

 private:
  void leave_out_failed();

  std::vector<std::vector<Turn>> sessions_; ///< until `complete`
  std::map<std::string, std::size_t> numbers_;
  std::vector<Turn> turns_;
  std::size_t next_ = 0;
};

static_assert(TraceReader<WholeTrace> && KnowsContent<WholeTrace>);

/// Bailian's usage traces: JSON lines with `chat_id`, `parent_chat_id` (-1: none), `timestamp` in seconds,
/// `input_length`, `output_length` and `hash_ids` of `block` tokens each. All turns that descend from one chat are a
/// session. A chat whose parent is not in the file begins one. Lines may be in any order; chats of one instant follow
/// their parents.
Expected<WholeTrace> read_bailian(LineReader lines, Tokens block = Tokens{16});

/// AIPerf's sessions: JSON lines with `session_id`, `timestamp` or `delay` in milliseconds, `input_length`,
/// `output_length` and `hash_ids` of `block` tokens each. A line without `session_id` is a request of no session.
Expected<WholeTrace> read_aiperf_sessions(LineReader lines, Tokens block = Tokens{512});

/// LLMServingSim's data sets: JSON lines with `arrival_time_ns`, `input_toks`, `output_toks` and, optionally, the token
/// ids themselves, `input_tok_ids` and `output_tok_ids`; or, in the same file, with `session_id` and `sub_requests`, of
/// which each follows the one before after that one's `tool_duration_ns`.
Expected<WholeTrace> read_token_ids(LineReader lines);

/// BurstGPT's tables. `limit`: as many requests are enough, if the table has no sessions.
Expected<WholeTrace> read_burstgpt(LineReader lines, std::optional<std::int64_t> limit = std::nullopt);

/// A load generator's requests, each when its client planned to send it.
Expected<WholeTrace> whole_trace(const LoadResult& result, const std::string& path);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/whole_trace.inl.hpp"
#endif
