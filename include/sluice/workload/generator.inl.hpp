// SPDX-License-Identifier: Apache-2.0
// Generator: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/workload/generator.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace sluice {

SLUICE_INLINE Status check(const GeneratorSpec& spec, const std::string& where) {
  if (spec.requests < 1 || spec.requests > 1'000'000'000) {
    return Error{ErrorCode::bad_input, where, "the number of requests is " + std::to_string(spec.requests),
                 "a whole number from 1 to 1000000000"};
  }
  if (spec.longest.count() < 1 || spec.longest.count() > max_request_tokens) {
    return Error{ErrorCode::bad_input, where, "the longest length is " + std::to_string(spec.longest.count()),
                 "a whole number from 1 to " + std::to_string(max_request_tokens)};
  }
  if (Status status = check(spec.arrivals, where); !status) return status;
  if (Status status = check(spec.prompt, spec.longest, where + " prompt"); !status) return status;
  return check(spec.output, spec.longest, where + " output");
}

SLUICE_INLINE Expected<std::optional<RequestSpec>> Generator::next() {
  if (made_ == spec_.requests) return std::optional<RequestSpec>{};
  if (made_ > 0) {
    const double gap = std::round(draw_gap(gaps_, spec_.arrivals) * 1e6);
    constexpr double end = 1e18; // microseconds: 30,000 years
    if (!(static_cast<double>(microseconds_) + gap < end)) {
      return Error{ErrorCode::bad_input, spec_.name, "the arrivals run out of time", "fewer requests, a higher rate"};
    }
    microseconds_ += static_cast<std::int64_t>(gap);
  }
  ++made_;
  RequestSpec request;
  request.arrival = Seconds{static_cast<double>(microseconds_) * 1e-6};
  request.prompt = draw_length(prompts_, spec_.prompt, spec_.longest);
  request.output = draw_length(outputs_, spec_.output, spec_.longest);
  return std::optional{request};
}

SLUICE_INLINE Generator::Generator(GeneratorSpec spec, Random root)
    : spec_(std::move(spec)), gaps_(root()), prompts_(root()), outputs_(root()) {
  SLUICE_ASSERT(check(spec_, spec_.name).ok(), "a spec that passed check()");
}

SLUICE_INLINE GeneratorSpec sharegpt_like() {
  return {.name = "sharegpt",
          .arrivals = {ArrivalKind::poisson, 1.0, 1.0},
          .prompt = LognormalLength{222.0, 1.0},
          .output = LognormalLength{1346.0, 1.0},
          .requests = 300,
          .longest = Tokens{32'384}};
}

SLUICE_INLINE GeneratorSpec leval_like() {
  return {.name = "leval",
          .arrivals = {ArrivalKind::poisson, 0.1, 1.0},
          .prompt = LognormalLength{35'956.0, 0.5},
          .output = LognormalLength{5'189.0, 0.5},
          .requests = 100,
          .longest = Tokens{262'144}};
}

SLUICE_INLINE GeneratorSpec demo_workload() {
  const BinnedLength lengths{{{0.35, {Tokens{96}, Tokens{608}}},
                              {0.40, {Tokens{1'600}, Tokens{2'448}}},
                              {0.25, {Tokens{3'264}, Tokens{4'912}}}}};
  return {.name = "demo",
          .arrivals = {ArrivalKind::gamma, 0.03, 1.5},
          .prompt = lengths,
          .output = lengths,
          .requests = 60,
          .longest = Tokens{131'072}};
}

} // namespace sluice

namespace sluice::detail {

SLUICE_INLINE Error generator_error(std::string what, std::string expected) {
  return {ErrorCode::bad_input, generator_flag, std::move(what), std::move(expected)};
}

SLUICE_INLINE std::vector<std::string_view> split_outside_parentheses(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] != separator || depth > 0) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

template <class Number>
std::optional<Number> parse_whole_text(std::string_view text) {
  Number value{};
  const auto [stopped, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || stopped != text.data() + text.size()) return std::nullopt;
  return value;
}

SLUICE_INLINE Expected<double> generator_number(std::string_view key, std::string_view text) {
  const std::optional<double> value = parse_whole_text<double>(text);
  if (!value || !std::isfinite(*value)) {
    return generator_error(std::string{key} + " is '" + excerpt(text) + "'", "a number");
  }
  return *value;
}

SLUICE_INLINE Expected<std::int64_t> generator_whole(std::string_view key, std::string_view text) {
  const std::optional<std::int64_t> value = parse_whole_text<std::int64_t>(text);
  if (!value) return generator_error(std::string{key} + " is '" + excerpt(text) + "'", "a whole number");
  return *value;
}

/// "0.5:96-144;0.5:400-608"
inline Expected<LengthDistribution> parse_bins(std::string_view key, std::string_view text) {
  BinnedLength binned;
  for (const std::string_view part : split_outside_parentheses(text, ';')) {
    const std::size_t colon = part.find(':');
    const std::size_t dash = part.find('-', colon == std::string_view::npos ? 0 : colon);
    if (colon == std::string_view::npos || dash == std::string_view::npos) {
      return generator_error(std::string{key} + " has the bin '" + excerpt(part) + "'", "weight:least-most");
    }
    const Expected<double> weight = generator_number(key, part.substr(0, colon));
    if (!weight) return weight.error();
    const Expected<std::int64_t> least = generator_whole(key, part.substr(colon + 1, dash - colon - 1));
    if (!least) return least.error();
    const Expected<std::int64_t> most = generator_whole(key, part.substr(dash + 1));
    if (!most) return most.error();
    binned.bins.push_back({*weight, {Tokens{*least}, Tokens{*most}}});
  }
  return LengthDistribution{std::move(binned)};
}

SLUICE_INLINE Expected<LengthDistribution> parse_lengths(std::string_view key, std::string_view text) {
  const std::string expected = "512, uniform(least,most), lognormal(mean,cv) or bins(weight:least-most;...)";
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos) {
    const std::optional<std::int64_t> tokens = parse_whole_text<std::int64_t>(text);
    if (!tokens) return generator_error(std::string{key} + " is '" + excerpt(text) + "'", expected);
    return LengthDistribution{FixedLength{Tokens{*tokens}}};
  }
  if (text.back() != ')') return generator_error(std::string{key} + " lacks the closing parenthesis", expected);
  const std::string_view kind = text.substr(0, open);
  const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  if (kind == "bins") return parse_bins(key, inside);
  const std::vector<std::string_view> numbers = split_outside_parentheses(inside, ',');
  if ((kind != "uniform" && kind != "lognormal") || numbers.size() != 2) {
    return generator_error(std::string{key} + " is '" + excerpt(text) + "'", expected);
  }
  if (kind == "lognormal") {
    const Expected<double> mean = generator_number(key, numbers[0]);
    if (!mean) return mean.error();
    const Expected<double> cv = generator_number(key, numbers[1]);
    if (!cv) return cv.error();
    return LengthDistribution{LognormalLength{*mean, *cv}};
  }
  const Expected<std::int64_t> least = generator_whole(key, numbers[0]);
  if (!least) return least.error();
  const Expected<std::int64_t> most = generator_whole(key, numbers[1]);
  if (!most) return most.error();
  return LengthDistribution{UniformLength{Tokens{*least}, Tokens{*most}}};
}

/// A kind of workload for `--generate`, and its keys' defaults.
struct GeneratorKind {
  std::string_view name;
  bool preset;
  GeneratorSpec spec;
};

inline std::optional<GeneratorKind> find_generator_kind(std::string_view name) {
  if (name == "demo") return GeneratorKind{name, true, demo_workload()};
  if (name == "sharegpt") return GeneratorKind{name, true, sharegpt_like()};
  if (name == "leval") return GeneratorKind{name, true, leval_like()};
  const struct {
    std::string_view name;
    ArrivalKind kind;
  } plain[] = {{"poisson", ArrivalKind::poisson},
               {"gamma", ArrivalKind::gamma},
               {"lognormal", ArrivalKind::lognormal},
               {"even", ArrivalKind::even}};
  for (const auto& known : plain) {
    if (name != known.name) continue;
    GeneratorKind kind{known.name, false, {}};
    kind.spec.name = std::string{name};
    kind.spec.arrivals.kind = known.kind;
    return kind;
  }
  return std::nullopt;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE Expected<GeneratorSpec> parse_generator(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  std::optional<detail::GeneratorKind> kind = detail::find_generator_kind(name);
  if (!kind) {
    constexpr std::array<std::string_view, 10> kinds{"demo",      "sharegpt", "leval",    "poisson", "gamma",
                                                     "lognormal", "even",     "sessions", "chat",    "agents"};
    return detail::generator_error("there is no generator '" + excerpt(name) + "'" + did_you_mean(name, kinds),
                                   std::string{generator_help});
  }
  GeneratorSpec& spec = kind->spec;
  std::vector<std::string_view> given;
  const auto has = [&given](std::string_view key) { return std::find(given.begin(), given.end(), key) != given.end(); };
  if (colon != std::string_view::npos) {
    const Status parsed = detail::parse_generator_keys(
        text.substr(colon + 1), given, [&](std::string_view key, std::string_view value) -> Status {
          if (key == "rate" || key == "cv")
            return detail::parse_into(key == "rate" ? spec.arrivals.rate : spec.arrivals.cv,
                                      detail::generator_number(key, value));
          if (key == "requests") return detail::parse_into(spec.requests, detail::generator_whole(key, value));
          if (key == "longest") {
            const Expected<std::int64_t> tokens = detail::generator_whole(key, value);
            if (!tokens) return tokens.error();
            spec.longest = Tokens{*tokens};
            return {};
          }
          if (key == "prompt" || key == "output")
            return detail::parse_into(key == "prompt" ? spec.prompt : spec.output, detail::parse_lengths(key, value));
          constexpr std::array<std::string_view, 6> keys{"rate", "requests", "cv", "prompt", "output", "longest"};
          return detail::generator_error("there is no key '" + excerpt(key) + "'" + did_you_mean(key, keys),
                                         "rate, requests, cv, prompt, output or longest");
        });
    if (!parsed) return parsed.error();
  }

  const ArrivalKind arrivals = spec.arrivals.kind;
  const bool takes_cv = arrivals == ArrivalKind::gamma || arrivals == ArrivalKind::lognormal;
  if (has("cv") && !takes_cv) {
    if (!kind->preset) {
      return detail::generator_error(std::string{name} + " arrivals have no cv to choose", "gamma or lognormal");
    }
    spec.arrivals.kind = ArrivalKind::gamma;
  }
  if (Status status = check(spec, detail::generator_flag); !status) return status.error();
  if (!kind->preset) {
    for (const std::string_view key : {"rate", "requests", "prompt", "output"}) {
      if (!has(key))
        return detail::generator_error(std::string{key} + " is missing", "rate=, requests=, prompt= and output=");
    }
    if (takes_cv && !has("cv")) {
      return detail::generator_error("cv is missing", "the coefficient of variation of the gaps, such as cv=2");
    }
  }
  return spec;
}

} // namespace sluice
