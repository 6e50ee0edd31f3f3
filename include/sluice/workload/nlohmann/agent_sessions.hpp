// SPDX-License-Identifier: Apache-2.0
// AgentSessionsReader: reads recorded sessions of coding agents, one file or line each.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/reader.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// The traces of kv-cache-tester (callanjfox, Apache-2.0): one session per file or per line, or a folder of such files,
/// read in the order of their names. A session has `block_size` and `requests`; a request has `t` (seconds from the
/// session's start), `in` and `out` (tokens), `hash_ids` (one number per started block of the prompt, valid only in
/// this session) and `api_time`, the duration of its answer. An entry of a subagent has requests of its own, which join
/// the session's in order of time. Their `t` counts from the entry's start (the tool's own traces) or from the
/// session's (those that SemiAnalysis publishes): from the entry's if any of the session's is before that start.
///
/// Each request follows the previous one. The gap is the recorded time between the previous one's end and its own start
/// (`think_time` in the file, recomputed from `t` and `api_time`), at most `longest_delay`, as in the tool's own
/// replay. Requests that overlap in the record (those of subagents) follow without delay. An answer's content is taken
/// from the next prompt, where it is repeated. Files do not state when sessions start, so one starts every `between`.
class AgentSessionsReader {
 public:
  static constexpr Seconds between{10};
  static constexpr Seconds longest_delay{60};
  static constexpr std::size_t longest_file = std::size_t{256} << 20;

  static Expected<AgentSessionsReader> open(const std::string& path);

  /// Reads one session, from its file's text.
  static Expected<AgentSessionsReader> from_text(const std::string& text, const std::string& name);

  Expected<std::optional<RequestSpec>> next();
  [[nodiscard]] std::span<const ContentPiece> content() const { return turns_[turn_ - 1].content; }

 private:
  struct Turn {
    RequestSpec spec;
    std::vector<ContentPiece> content;
  };

  AgentSessionsReader() = default;

  Status read_session();
  Status read_session(const nlohmann::json& file, const std::string& path);

  std::vector<std::string> files_;
  std::optional<LineReader> lines_; ///< of a file with a session per line
  bool ended_ = false;
  std::size_t session_ = 0; ///< sessions read
  std::vector<Turn> turns_; ///< of the session read last
  std::size_t turn_ = 0;    ///< number of its turns that were returned
};

static_assert(TraceReader<AgentSessionsReader> && KnowsContent<AgentSessionsReader>);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/agent_sessions.inl.hpp"
#endif
