// SPDX-License-Identifier: Apache-2.0
// small_fleet: a server with little memory, workloads, and a listener that keeps what a fleet tells.
#pragma once

#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/fleet/fleet.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/workload/session_generator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice_test {

/// So little memory that engines preempt under load.
inline sluice::Server small_server(std::int64_t blocks = 700) {
  return {.model = sluice::llama3_8b(),
          .device = sluice::a100_80(),
          .kv_blocks = sluice::TokenBlocks{blocks},
          .limits = {.batch = 16, .batch_tokens = sluice::Tokens{512}}};
}

/// Requests with content: groups that share a beginning.
class GroupedPrompts {
 public:
  GroupedPrompts(int requests, double rate, int groups, std::uint64_t seed)
      : left_(requests), rate_(rate), groups_(groups), random_(seed) {}
  sluice::Expected<std::optional<sluice::RequestSpec>> next() {
    using namespace sluice;
    if (left_-- == 0) return std::optional<RequestSpec>{};
    RequestSpec spec;
    spec.arrival = Seconds{at_};
    at_ += random_.uniform() * 2 / rate_;
    spec.prompt = Tokens{400 + static_cast<std::int64_t>(random_.below(800))};
    spec.output = Tokens{1 + static_cast<std::int64_t>(random_.below(120))};
    pieces_ = {{1 + random_.below(static_cast<std::uint64_t>(groups_)), Tokens{384}},
               {1'000'000 + static_cast<std::uint64_t>(left_), spec.prompt - Tokens{384}}};
    return std::optional{spec};
  }
  [[nodiscard]] std::span<const sluice::ContentPiece> content() const { return pieces_; }

 private:
  int left_;
  double rate_;
  int groups_;
  sluice::Random random_;
  double at_ = 0;
  std::vector<sluice::ContentPiece> pieces_;
};
static_assert(sluice::TraceReader<GroupedPrompts> && sluice::KnowsContent<GroupedPrompts>);

/// Given requests, one after another.
class Listed {
 public:
  explicit Listed(std::vector<sluice::RequestSpec> requests) : requests_(std::move(requests)) {}
  sluice::Expected<std::optional<sluice::RequestSpec>> next() {
    return at_ < requests_.size() ? std::optional{requests_[at_++]} : std::nullopt;
  }

 private:
  std::vector<sluice::RequestSpec> requests_;
  std::size_t at_ = 0;
};

/// Keeps all events of a fleet.
struct Heard {
  std::vector<sluice::FleetEnd> ends;
  std::vector<sluice::FleetChoice> choices;
  std::int64_t windows = 0;

  void operator()(const sluice::FleetEnd& end) { ends.push_back(end); }
  void operator()(const sluice::FleetChoice& choice) { choices.push_back(choice); }
  void operator()(const sluice::FleetWindow& /*window*/) { ++windows; }

  /// By number.
  [[nodiscard]] std::vector<sluice::FleetEnd> sorted() const {
    std::vector<sluice::FleetEnd> all = ends;
    std::sort(all.begin(), all.end(),
              [](const sluice::FleetEnd& a, const sluice::FleetEnd& b) { return a.number < b.number; });
    return all;
  }
};

/// Runs a fleet to its end, and checks what holds for every run.
template <class F, class Reader>
sluice::FleetSummary run_fleet(F& fleet, Reader reader, Heard& heard) {
  const sluice::Status status = fleet.run(reader, heard);
  REQUIRE_MESSAGE(status.ok(), (status.ok() ? std::string{} : status.error().line()));
  const sluice::FleetSummary& summary = fleet.summary();
  CHECK(summary.unfinished == 0);
  CHECK(summary.served + summary.refused == summary.requests);
  // Every request ends exactly once, with all its tokens.
  const std::vector<sluice::FleetEnd> ends = heard.sorted();
  REQUIRE(ends.size() == static_cast<std::size_t>(summary.requests));
  for (std::size_t i = 0; i < ends.size(); ++i) {
    CHECK(ends[i].number == i);
    if (ends[i].outcome != sluice::Outcome::served) continue;
    CHECK(ends[i].generated == ends[i].spec.output);
    CHECK(ends[i].first > ends[i].spec.arrival);
    CHECK(ends[i].last >= ends[i].first);
  }
  return summary;
}

template <class R, class E>
sluice::FleetSummary serve_small(std::size_t engines, int requests, double rate, R router,
                                 sluice::FleetSettings settings, Heard& heard, std::uint64_t seed = 1) {
  auto fleet = sluice::make_fleet<R, E>(engines, small_server(), std::move(router), std::move(settings));
  REQUIRE(fleet);
  return run_fleet(*fleet, GroupedPrompts(requests, rate, 6, seed), heard);
}

} // namespace sluice_test
