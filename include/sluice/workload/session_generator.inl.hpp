// SPDX-License-Identifier: Apache-2.0
// SessionGenerator: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/workload/generator.hpp"
#include "sluice/workload/session_generator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

SLUICE_INLINE Status check(const SessionSpec& spec, const std::string& where) {
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

SLUICE_INLINE Expected<std::optional<RequestSpec>> SessionGenerator::next() {
  if (turn_ == turns_) {
    if (session_ == spec_.sessions) return std::optional<RequestSpec>{};
    if (Status status = start(); !status) return status.error();
  } else if (spec_.hints.any()) {
    std::swap(content_, coming_);
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
  if (spec_.hints.any()) request.hints = look_ahead().only(spec_.hints);
  return std::optional{request};
}

SLUICE_INLINE SessionHints SessionGenerator::look_ahead() {
  if (turn_ == turns_) return {.release = true};
  const std::uint64_t compactions = compactions_;
  coming_ = content_;
  continue_session();
  std::swap(content_, coming_);
  SessionHints hints;
  if (delay_ >= shortest_hint) hints = {std::min(2 * delay_, longest_hint), std::min(delay_, longest_hint)};
  if (compactions_ > compactions) hints.keep = static_cast<std::int32_t>(systems_[system_].count());
  return hints;
}

SLUICE_INLINE SessionGenerator::SessionGenerator(SessionSpec spec, Random root)
    : spec_(std::move(spec)), gaps_(root()), sessions_(root()), draws_(0) {
  SLUICE_ASSERT(check(spec_, spec_.name).ok(), "a spec that passed check()");
  Random systems(root());
  for (std::int64_t i = 0; i < spec_.systems; ++i)
    systems_.push_back(draw_length(systems, spec_.system, spec_.longest - Tokens{2}));
}

SLUICE_INLINE Status SessionGenerator::start() {
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

SLUICE_INLINE void SessionGenerator::continue_session() {
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

SLUICE_INLINE void SessionGenerator::answer() {
  output_ = std::min(draw_length(draws_, spec_.output, spec_.longest), spec_.longest - prompt_);
  const Tokens system = systems_[system_];
  constexpr std::uint64_t of_sessions = std::uint64_t{1} << 62; // numbers below this one identify system prompts
  const std::uint64_t own = of_sessions + (static_cast<std::uint64_t>(session_) << 20) + compactions_;
  content_ = {{system_, system}, {own, prompt_ + output_ - system}};
}

SLUICE_INLINE SessionSpec chat_sessions() {
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

SLUICE_INLINE SessionSpec agent_sessions() {
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

namespace sluice::detail {

/// "20" or "lognormal(20,1.5)", in seconds.
inline Expected<DelayDistribution> parse_delay(std::string_view key, std::string_view text) {
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos) {
    const Expected<double> seconds = generator_number(key, text);
    if (!seconds) return seconds.error();
    return DelayDistribution{*seconds, 0};
  }
  const std::string_view kind = text.substr(0, open);
  const std::vector<std::string_view> numbers =
      split_outside_parentheses(text.substr(open + 1, text.size() - std::min(text.size(), open + 2)), ',');
  if (kind != "lognormal" || text.back() != ')' || numbers.size() != 2)
    return generator_error(std::string{key} + " is '" + excerpt(text) + "'", "seconds, or lognormal(mean,cv)");
  const Expected<double> mean = generator_number(key, numbers[0]);
  if (!mean) return mean.error();
  const Expected<double> cv = generator_number(key, numbers[1]);
  if (!cv) return cv.error();
  return DelayDistribution{*mean, *cv};
}

/// "ttl+release", "all" or "none".
inline Expected<HintSet> parse_hints(std::string_view text) {
  constexpr HintSet all{.ttl = true, .keep = true, .release = true, .prefetch = true};
  if (text == "all") return all;
  HintSet hints;
  if (text == "none") return hints;
  constexpr std::pair<std::string_view, bool HintSet::*> names[] = {{"ttl", &HintSet::ttl},
                                                                    {"keep", &HintSet::keep},
                                                                    {"release", &HintSet::release},
                                                                    {"prefetch", &HintSet::prefetch}};
  for (const std::string_view one : split_outside_parentheses(text, '+')) {
    const auto* const named =
        std::find_if(std::begin(names), std::end(names), [&](auto& of) { return of.first == one; });
    if (named == std::end(names))
      return generator_error("hints is '" + excerpt(text) + "'", "all, none, or some of ttl+keep+release+prefetch");
    hints.*named->second = true;
  }
  return hints;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE bool describes_sessions(std::string_view text) {
  const std::string_view kind = text.substr(0, text.find(':'));
  return kind == "sessions" || kind == "chat" || kind == "agents";
}

SLUICE_INLINE Expected<SessionSpec> parse_sessions(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  SessionSpec spec = kind == "chat" ? chat_sessions() : kind == "agents" ? agent_sessions() : SessionSpec{};
  std::vector<std::string_view> given;
  if (colon != std::string_view::npos) {
    const auto apply = [&](std::string_view key, std::string_view value) -> Status {
      using namespace detail;
      const std::pair<std::string_view, double*> numbers[] = {
          {"rate", &spec.arrivals.rate}, {"cv", &spec.arrivals.cv}, {"tools", &spec.tools}, {"compact", &spec.compact}};
      for (const auto& [name, number] : numbers)
        if (key == name) return parse_into(*number, generator_number(key, value));
      const std::pair<std::string_view, LengthDistribution*> lengths[] = {{"turns", &spec.turns},
                                                                          {"first", &spec.first},
                                                                          {"growth", &spec.growth},
                                                                          {"output", &spec.output},
                                                                          {"system", &spec.system}};
      for (const auto& [name, one] : lengths)
        if (key == name) return parse_into(*one, parse_lengths(key, value));
      if (key == "tool" || key == "user")
        return parse_into(key == "tool" ? spec.tool : spec.user, parse_delay(key, value));
      if (key == "sessions" || key == "systems")
        return parse_into(key == "sessions" ? spec.sessions : spec.systems, generator_whole(key, value));
      if (key == "hints") {
        const Expected<HintSet> hints = parse_hints(value);
        if (!hints) return hints.error();
        spec.hints = *hints;
        return {};
      }
      if (key == "longest") {
        const Expected<std::int64_t> tokens = generator_whole(key, value);
        if (!tokens) return tokens.error();
        spec.longest = Tokens{*tokens};
        return {};
      }
      constexpr std::array<std::string_view, 15> keys{"rate",   "sessions", "cv",      "turns",   "first",
                                                      "growth", "output",   "system",  "systems", "tool",
                                                      "user",   "tools",    "compact", "longest", "hints"};
      return generator_error("there is no key '" + excerpt(key) + "'" + did_you_mean(key, keys),
                             "rate, sessions, cv, turns, first, growth, output, system, systems, tool, user, tools, "
                             "compact, longest or hints");
    };
    if (Status parsed = detail::parse_generator_keys(text.substr(colon + 1), given, apply); !parsed)
      return parsed.error();
  }
  const auto has = [&given](std::string_view key) { return std::find(given.begin(), given.end(), key) != given.end(); };
  if (has("cv")) spec.arrivals.kind = ArrivalKind::gamma;
  if (kind == "sessions")
    for (const std::string_view key : {"rate", "sessions", "turns", "first", "growth", "output"})
      if (!has(key))
        return detail::generator_error(std::string{key} + " is missing",
                                       "rate=, sessions=, turns=, first=, growth= and output=");
  if (Status status = check(spec, detail::generator_flag); !status) return status.error();
  return spec;
}

} // namespace sluice
