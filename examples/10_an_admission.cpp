// SPDX-License-Identifier: Apache-2.0
// an_admission: decides which waiting request joins the batch next when users have different SLOs.
//
// The problem: some users chat and want their first token within 10 s; others send batch jobs that may wait for ten
// minutes. First come, first served treats both alike. Goals of this program: give requests SLO classes, compare an
// admission of ten lines (deadline_first.hpp) with the usual one, and count the service that users of each class
// received.
#include "sluice/simulation.hpp"

#include "deadline_first.hpp"
#include <fmt/format.h>

#include <cstdio>
#include <vector>

namespace {

using namespace sluice;

const std::vector<SloClass> classes{{"chat", 0.5, {.ttft = Seconds{10}, .tbt = Seconds{0.05}}},
                                    {"batch", 0.5, {.ttft = Seconds{600}, .tbt = Seconds{0.2}}}};

/// Returns whether a user got the first token in time and the later tokens at the pace of the SLO.
bool within_slo(const RequestRecord& request) {
  return request.outcome == Outcome::served && on_time(request.ttft(), request.slo_ttft, request.first) &&
         on_time(request.tpot(), request.slo_tbt, request.last);
}

/// Serves and prints one row: the same requests, with the same classes, for every engine.
template <class E>
bool row(const char* name, const Server& server) {
  using Observed = With<E, Summary>;
  Expected<Observed> engine = Observed::make(configure<Observed>(server));
  Shaped<Generator> requests{Generator{demo_workload(), /*seed=*/1}, {.slo_classes = classes, .class_seed = 1}};
  const Status status = engine ? simulate(*engine, requests) : Status{engine.error()};
  if (!status) {
    fmt::print(stderr, "{}\n", status.error().line());
    return false;
  }
  fmt::print("{:<14}", name);
  for (const SloClass& one : classes) {
    int all = 0, met = 0;
    double waited = 0;
    for (const RequestRecord& request : engine->template observed<Summary>().requests) {
      if (request.slo_ttft != one.slo.ttft) continue;
      ++all;
      met += within_slo(request) ? 1 : 0;
      waited += request.ttft().count();
    }
    fmt::print(" {:>8.1f} % {:>8.1f} s", 100.0 * met / all, waited / all);
  }
  fmt::print("\n");
  return true;
}

} // namespace

int main() {
  const Server server{.model = llama3_8b(),
                      .device = a5000(),
                      .kv_blocks = demo_budget,
                      .limits = {.batch = demo_batch, .batch_tokens = Tokens{32'768}}};
  fmt::print("{} on {}, {} generated requests; share of each class within its SLO, mean time to the first token\n\n",
             server.model.name, server.device.name, demo_workload().requests);
  fmt::print("{:<14} {:>21} {:>21}\n", "", "chat (10 s, 50 ms)", "batch (600 s, 200 ms)");
  const bool served = row<VllmSwap>("VllmSwap", server) && row<DeadlineFirst>("DeadlineFirst", server);
  if (std::fflush(stdout) != 0) return std::perror("an_admission: standard output"), 2;
  return served ? 0 : 2;
}
