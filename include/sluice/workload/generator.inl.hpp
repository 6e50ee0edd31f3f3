// SPDX-License-Identifier: Apache-2.0
// Generator: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/workload/generator.hpp"

#include <cmath>

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
