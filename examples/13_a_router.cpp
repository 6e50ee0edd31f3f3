// SPDX-License-Identifier: Apache-2.0
// a_router: a router of your own before eight engines, beside the project's.
//
// The problem: requests of a conversation find their KV only in the engine that served the turn before, and an engine
// that all long conversations like has a queue. Goals of this program: write a router that sends a request to the
// engine whose caches have most of its prompt, unless that engine's queue is long, and compare it with simpler ones on
// chats.
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/fleet/by_session.hpp"
#include "sluice/fleet/fleet.hpp"
#include "sluice/fleet/least_loaded.hpp"
#include "sluice/fleet/round_robin.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/workload/session_generator.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>

namespace {

using namespace sluice;

/// A block that is found saves as much as `blocks_per_request` requests fewer in the queue cost.
struct FoundUnlessBusy {
  using role = roles::Router;
  static constexpr RouterReads reads{.load = true, .prefixes = true};
  struct State {};

  Seconds every{0.1};
  int blocks_per_request = 50;

  std::size_t choose(const FleetView& view, const RoutedRequest& /*request*/, State& /*state*/) const {
    std::size_t best = view.open.front();
    for (const std::size_t one : view.open)
      if (worth(view, one) > worth(view, best)) best = one;
    return best;
  }
  int worth(const FleetView& view, std::size_t engine) const {
    const EngineReport& report = view.reports[engine];
    return view.found[engine] - blocks_per_request * (report.waiting + report.preempted + view.sent[engine].requests);
  }
};

static_assert(explain<FoundUnlessBusy>());

template <class R>
bool row(const char* name, const Server& server) {
  auto fleet = make_fleet<R, VllmPrefixCaching>(8, server);
  SessionGenerator chats{*parse_sessions("chat:sessions=400,rate=4,turns=6,first=3000,growth=600,output=200,user=20"),
                         1};
  const Status status = fleet ? fleet->run(chats) : fleet.error();
  if (!status) return fmt::print(stderr, "a_router: {}\n", status.error().line()), false;
  const FleetSummary& of = fleet->summary();
  fmt::print("{:<16} {:>8} {:>8.1f} {:>9.3f} {:>9.3f} {:>8.0f}\n", name, of.served,
             100.0 * static_cast<double>(of.found.count()) / static_cast<double>(of.prompts.count()), of.ttft.mean(),
             of.ttft.quantile(0.9), of.tokens_per_s());
  return true;
}

} // namespace

int main() {
  const Server server{.model = llama3_8b(), .device = a100_80(), .kv_blocks = TokenBlocks{8'000}};
  fmt::print("Eight engines: {} on {}, chats of six turns\n\n", server.model.name, server.device.name);
  fmt::print("{:<16} {:>8} {:>8} {:>9} {:>9} {:>8}\n", "router", "served", "found %", "TTFT, s", "P90, s", "tokens/s");
  const bool served = row<RoundRobin>("RoundRobin", server) && row<LeastLoaded>("LeastLoaded", server) &&
                      row<BySession>("BySession", server) && row<FoundUnlessBusy>("FoundUnlessBusy", server);
  if (std::fflush(stdout) != 0) return std::perror("a_router: standard output"), 2;
  return served ? 0 : 2;
}
