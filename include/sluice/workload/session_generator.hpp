// SPDX-License-Identifier: Apache-2.0
// SessionGenerator: random sessions, in which each prompt contains the previous answers, and the presets.
#pragma once

#include "sluice/workload/distributions.hpp"
#include "sluice/workload/reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

  friend bool operator==(const SessionSpec&, const SessionSpec&) = default;
};

/// Returns an error if the sessions cannot be generated; the message begins with `where`.
inline Status check(const SessionSpec& spec, const std::string& where) {
  const auto whole = [&](const char* name, std::int64_t value, std::int64_t most) -> Status {
    if (value >= 1 && value <= most) return {};
    return Error{ErrorCode::bad_input, where, std::string{name} + " is " + std::to_string(value),
                 "a whole number from 1 to " + std::to_string(most)};
  };
  if (Status status = whole("sessions", spec.sessions, 100'000'000); !status) return status;
  if (Status status = whole("systems", spec.systems, 1'000'000); !status) return status;
  if (spec.longest.count() < 4 || spec.longest.count() > max_request_tokens)
    return Error{ErrorCode::bad_input, where, "longest is " + std::to_string(spec.longest.count()),
                 "a whole number from 4 to " + std::to_string(max_request_tokens)};
  if (Status status = check(spec.arrivals, where); !status) return status;
  const struct {
    const char* name;
    const LengthDistribution* lengths;
    Tokens longest;
  } lengths[] = {{" turns", &spec.turns, Tokens{10'000}},
                 {" system", &spec.system, spec.longest - Tokens{2}},
                 {" first", &spec.first, spec.longest - Tokens{1}},
                 {" growth", &spec.growth, spec.longest},
                 {" output", &spec.output, spec.longest}};
  for (const auto& one : lengths)
    if (Status status = check(*one.lengths, one.longest, where + one.name); !status) return status;
  for (const auto& [name, delay] : {std::pair{"tool", spec.tool}, std::pair{"user", spec.user}})
    if (!(delay.mean >= 0 && delay.mean <= 1e6 && (delay.cv == 0 || (delay.cv >= 0.01 && delay.cv <= 10))))
      return Error{ErrorCode::bad_input, where, std::string{name} + " has an impossible delay",
                   "a mean from 0 to 1000000 seconds, and a CV of 0 or from 0.01 to 10"};
  for (const auto& [name, share] : {std::pair{"tools", spec.tools}, std::pair{"compact", spec.compact}})
    if (!(share >= 0 && share <= 1))
      return Error{ErrorCode::bad_input, where, std::string{name} + " is " + std::to_string(share),
                   "a share from 0 to 1"};
  return {};
}

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

  Expected<std::optional<RequestSpec>> next() {
    if (turn_ == turns_) {
      if (session_ == spec_.sessions) return std::optional<RequestSpec>{};
      if (Status status = start(); !status) return status.error();
    } else {
      continue_session();
    }
    RequestSpec request;
    request.arrival = Seconds{static_cast<double>(microseconds_ + waited_) * 1e-6};
    request.prompt = prompt_;
    request.output = output_;
    request.session = static_cast<std::uint32_t>(session_);
    request.turn = static_cast<std::int32_t>(turn_);
    request.follows = turn_ > 0;
    request.delay = delay_;
    ++turn_;
    return std::optional{request};
  }
  [[nodiscard]] std::span<const ContentPiece> content() const { return content_; }
  [[nodiscard]] const SessionSpec& spec() const { return spec_; }

 private:
  SessionGenerator(SessionSpec spec, Random root)
      : spec_(std::move(spec)), gaps_(root()), sessions_(root()), draws_(0) {
    SLUICE_ASSERT(check(spec_, spec_.name).ok(), "a spec that passed check()");
    Random systems(root());
    for (std::int64_t i = 0; i < spec_.systems; ++i)
      systems_.push_back(draw_length(systems, spec_.system, spec_.longest - Tokens{2}));
  }

  Status start() {
    if (session_ > 0) {
      const double gap = std::round(draw_gap(gaps_, spec_.arrivals) * 1e6);
      if (!(static_cast<double>(microseconds_) + gap < 1e18)) // 30,000 years
        return Error{ErrorCode::bad_input, spec_.name, "the arrivals run out of time", "fewer sessions, a higher rate"};
      microseconds_ += static_cast<std::int64_t>(gap);
    }
    ++session_;
    draws_ = Random{sessions_()};
    turn_ = waited_ = 0;
    delay_ = Seconds{0};
    turns_ = draw_length(draws_, spec_.turns, Tokens{10'000}).count();
    system_ = draws_.below(systems_.size());
    compactions_ = 0;
    prompt_ = std::max(draw_length(draws_, spec_.first, spec_.longest - Tokens{1}), systems_[system_] + Tokens{1});
    answer();
    return {};
  }
  void continue_session() {
    const bool compacted = draws_.uniform() < spec_.compact;
    const Tokens longer = std::max(draw_length(draws_, spec_.growth, spec_.longest), output_ + Tokens{1});
    const DelayDistribution& gap = draws_.uniform() < spec_.tools ? spec_.tool : spec_.user;
    const double seconds = gap.cv > 0 ? draw_lognormal(draws_, gap.mean, gap.cv) : gap.mean;
    const auto microseconds = static_cast<std::int64_t>(std::round(std::min(seconds, 1e9) * 1e6));
    delay_ = Seconds{static_cast<double>(microseconds) * 1e-6};
    waited_ += microseconds;
    const Tokens system = systems_[system_];
    prompt_ += longer;
    if (compacted || prompt_ >= spec_.longest) {
      ++compactions_;
      const Tokens own = std::min(prompt_, spec_.longest) - system;
      prompt_ = system + Tokens{std::max<std::int64_t>(1, own.count() / 5)};
    }
    answer();
  }
  void answer() {
    output_ = std::min(draw_length(draws_, spec_.output, spec_.longest), spec_.longest - prompt_);
    const Tokens system = systems_[system_];
    constexpr std::uint64_t of_sessions = std::uint64_t{1} << 62; // numbers below this one identify system prompts
    const std::uint64_t own = of_sessions + (static_cast<std::uint64_t>(session_) << 20) + compactions_;
    content_ = {{system_, system}, {own, prompt_ + output_ - system}};
  }

  SessionSpec spec_;
  Random gaps_;
  Random sessions_; ///< the sessions' seeds
  Random draws_;    ///< for the current session
  std::vector<Tokens> systems_;
  std::vector<ContentPiece> content_;
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
inline SessionSpec chat_sessions() {
  return {.name = "chat",
          .arrivals = {ArrivalKind::gamma, 0.5, 3.0},
          .sessions = 200,
          .turns =
              BinnedLength{
                  {{0.75, {Tokens{1}, Tokens{1}}}, {0.17, {Tokens{2}, Tokens{2}}}, {0.08, {Tokens{3}, Tokens{8}}}}},
          .systems = 1,
          .system = FixedLength{Tokens{512}},
          .first = LognormalLength{11'630.0, 1.69},
          .growth = LognormalLength{2'357.0, 4.9},
          .output = LognormalLength{382.0, 0.44},
          .tool = {},
          .user = {217.0, 1.4},
          .tools = 0,
          .compact = 0,
          .longest = Tokens{131'072}};
}

/// Returns coding agents with the shape of kv-cache-tester's sessions, fitted in the same way: 45 and 156 turns; first
/// prompt 24,500 and 259,000 tokens, of which 14,900 are tools and system prompt; growth per turn 655 and 3,541; answer
/// 216 and 899. After 86 % of the answers a tool runs for 9 and 74 s, otherwise a user takes 121 and 1,506 s. 0.9 % of
/// the prompts are compacted. The four system prompts and the rate are assumptions.
inline SessionSpec agent_sessions() {
  return {.name = "agents",
          .arrivals = {ArrivalKind::gamma, 0.02, 3.0},
          .sessions = 24,
          .turns = LognormalLength{72.0, 1.25},
          .systems = 4,
          .system = FixedLength{Tokens{14'900}},
          .first = LognormalLength{133'000.0, 5.35},
          .growth = LognormalLength{1'565.0, 2.17},
          .output = LognormalLength{400.0, 1.56},
          .tool = {34.8, 3.73},
          .user = {838.0, 6.85},
          .tools = 0.86,
          .compact = 0.009,
          .longest = Tokens{262'144}};
}

} // namespace sluice
