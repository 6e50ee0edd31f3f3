// SPDX-License-Identifier: Apache-2.0
// SessionGenerator: random sessions, in which prompts contain the previous answers; parse_sessions reads their text.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/distributions.hpp"
#include "sluice/workload/reader.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Lognormal seconds with this mean and coefficient of variation; always the mean if `cv` is 0.
struct DelayDistribution {
  double mean = 0;
  double cv = 0;
  friend constexpr bool operator==(const DelayDistribution&, const DelayDistribution&) = default;
};

/// The sessions to generate. Lengths are tokens.
struct SessionSpec {
  std::string name = "sessions";
  ArrivalProcess arrivals; ///< of sessions
  std::int64_t sessions = 1;
  LengthDistribution turns = FixedLength{};  ///< requests per session
  std::int64_t systems = 1;                  ///< number of system prompts; each session has one of them, with equal
                                             ///< probability
  LengthDistribution system = FixedLength{}; ///< a system prompt, with its tools
  LengthDistribution first = FixedLength{};  ///< a session's whole first prompt: the system prompt and at least one
                                             ///< token more
  LengthDistribution growth =
      FixedLength{}; ///< how much longer a prompt is than the previous one, including the answer
  LengthDistribution output = FixedLength{};
  DelayDistribution tool;  ///< time from answer to next turn, if a tool runs in between
  DelayDistribution user;  ///< the same, if a user answers
  double tools = 0;        ///< share of the gaps that belong to tools
  double compact = 0;      ///< share of the turns, except first ones, whose prompt was compacted
  Tokens longest{131'072}; ///< most tokens of prompt and answer; a longer prompt is compacted
  /// What clients say: `prefetch` is the delay to the next turn, `ttl` twice that, both at most an hour; `release`
  /// comes with the last turn; `keep` is the system prompt where the next prompt is compacted.
  HintSet hints{};

  friend bool operator==(const SessionSpec&, const SessionSpec&) = default;
};

/// Returns an error if the sessions cannot be generated; the message begins with `where`.
Status check(const SessionSpec& spec, const std::string& where);

/// Draws sessions; the first one starts at 0. A session's requests come one after another, each following the previous
/// one.
///
/// A prompt is the system prompt, then the session's own tokens: every prompt begins with the previous prompt and
/// answer. A compacted prompt keeps the system prompt and a fifth of the session's own tokens, as new content. A prompt
/// that would reach `longest` is compacted as well, and an answer that would exceed it ends there. The recorded
/// arrival, used in open mode, assumes that answers take no time.
///
/// Each session has its own random generator with a seed from one draw, so that a change of the rate changes no length,
/// and a larger number of sessions does not change the first ones.
class SessionGenerator {
 public:
  /// `spec` must have passed `check`.
  SessionGenerator(SessionSpec spec, std::uint64_t seed) : SessionGenerator(std::move(spec), Random{seed}) {}

  Expected<std::optional<RequestSpec>> next();
  [[nodiscard]] std::span<const ContentPiece> content() const { return content_; }
  [[nodiscard]] const SessionSpec& spec() const { return spec_; }

 private:
  SessionGenerator(SessionSpec spec, Random root);

  Status start();
  void continue_session();
  void answer();
  /// The next turn is drawn, and what is known of it then.
  [[nodiscard]] SessionHints look_ahead();

  SessionSpec spec_;
  Random gaps_;
  Random sessions_; ///< the sessions' seeds
  Random draws_;    ///< for the current session
  std::vector<Tokens> systems_;
  std::vector<ContentPiece> content_, coming_; ///< of the last request, and of the next one
  std::int64_t session_ = 0, turn_ = 0, turns_ = 0;
  std::uint64_t system_ = 0, compactions_ = 0;
  std::int64_t microseconds_ = 0; ///< start of the session
  std::int64_t waited_ = 0;       ///< sum of its delays so far, in microseconds
  Tokens prompt_{1}, output_{1};
  Seconds delay_{0};
};

static_assert(TraceReader<SessionGenerator> && KnowsContent<SessionGenerator>);

/// Returns chats with the shape of Mooncake's conversation trace (FAST 2025), fitted as lognormals to its median and
/// P90: first prompt 5,933 and 26,284 tokens, growth per turn 474 and 4,701, answer 350 and 597, gap 126 and 480 s;
/// three of four sessions have one turn. All share 512 tokens. The rate, and the CV 3 of the arrivals, suit one server.
SessionSpec chat_sessions();

/// Returns coding agents with the shape of kv-cache-tester's sessions, fitted in the same way: 45 and 156 turns; first
/// prompt 24,500 and 259,000 tokens, of which 14,900 are tools and system prompt; growth per turn 655 and 3,541; answer
/// 216 and 899. After 86 % of the answers a tool runs for 9 and 74 s, otherwise a user takes 121 and 1,506 s. 0.9 % of
/// the prompts are compacted. The four system prompts and the rate are assumptions.
SessionSpec agent_sessions();

// parse_sessions: reads the text of `--generate` that describes sessions.

/// Returns whether a text of `--generate` describes sessions.
[[nodiscard]] bool describes_sessions(std::string_view text);

/// Parses a text that describes sessions: `chat`, `agents:sessions=50,rate=0.1`, or
/// `sessions:rate=1,sessions=100,turns=8,first=4096,growth=512,output=128,user=30`.
///
/// Presets have a default for every key. `sessions` needs rate, sessions, turns, first, growth and output. A cv makes
/// the arrivals gamma. Errors begin with `--generate`.
Expected<SessionSpec> parse_sessions(std::string_view text);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/session_generator.inl.hpp"
#endif
