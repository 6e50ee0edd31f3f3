// SPDX-License-Identifier: Apache-2.0
// a_cost_model: a planner with a wrong cost model, and what the error costs.
//
// The problem: an engine that offloads just in time plans with a model of compute times and of the link's rate. On a
// real machine that model is wrong. Goals of this program: a simple cost model of your own; a planner that uses it in a
// world that behaves differently (in Sluice both are separate objects, and may have different types); the cost of the
// error for users; and `Calibrated`, which makes the same model learn from measurements.
#include "sluice/simulation.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace {

using namespace sluice;

/// A step reads all weights once and computes each chunk of a prompt; nothing else takes time. This ignores that
/// attention reads KV, and that no device reaches the rates of its data sheet.
class Envelope {
 public:
  using role = roles::Cost;
  struct State {}; // no learning

  /// `optimism` divides all times: 1 is the data sheet.
  Envelope(const ModelShape& shape, const Device& device, double optimism) : link_(device_link(device)) {
    const double bytes = static_cast<double>(shape.layer_weight_bytes().count());
    read_s_ = bytes / device.memory_bandwidth.count() / optimism;
    token_s_ = bytes / shape.weight_element_bytes * 2 / device.half_precision_peak.count() / optimism;
  }

  [[nodiscard]] StepTime step(const Work& work) const {
    const double tokens = static_cast<double>(work.tokens().count() + work.rebuilt.projected.count());
    return {.layer = Seconds{tokens > 0 ? read_s_ + tokens * token_s_ : 0}};
  }
  [[nodiscard]] LinkCost link() const { return link_; }
  [[nodiscard]] const Envelope& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}

 private:
  LinkCost link_;
  double read_s_ = 0, token_s_ = 0;
};

static_assert(explain<Envelope>());

const Server server{.model = llama3_8b(),
                    .device = a5000(),
                    .kv_blocks = TokenBlocks{700},
                    .limits = {.batch = demo_batch, .batch_tokens = Tokens{32'768}}};
const Slo slo{.ttft = Seconds{5}, .tbt = Seconds{0.06}};
const Roofline world{server.model, server.device};

/// Four requests of 3,000 tokens decode together.
double decode_step_ms(const auto& model) {
  Work work;
  work.decodes = work.samples = 4;
  work.decode_context = Tokens{4 * 3'000};
  return 1e3 * model.step(work).total(server.model.layers).count();
}

/// Serves and prints one row: the planner uses `cost`, the world always uses the roofline. `serve` gives both the same
/// model, so this function configures a planner with another one, using the same lines as serve.
template <class Cost>
bool row(const char* name, Cost cost) {
  using E = With<OrbitFlow, Cost, BasicSimulated<Roofline>, Summary>;
  const auto like = configure<OrbitFlow>(server, world);
  const double predicted = decode_step_ms(cost);
  Expected<E> engine = E::make({.limits = like.limits,
                                .geometry = like.geometry,
                                .device_blocks = like.device_blocks,
                                .host_blocks = like.host_blocks,
                                .cost = std::move(cost),
                                .backend = BasicSimulated<Roofline>{world}});
  if (!engine) {
    fmt::print(stderr, "a_cost_model: {}\n", engine.error().line());
    return false;
  }
  Shaped<Generator> requests{Generator{demo_workload(), /*seed=*/1}, {.slo = slo}};
  if (const Status status = simulate(*engine, requests); !status) {
    fmt::print(stderr, "a_cost_model: {}\n", status.error().line());
    return false;
  }
  const Metrics seen = measure(engine->template observed<Summary>(), engine->now());
  fmt::print("{:<34} {:>7.1f} ms {:>8.1f} % {:>8.1f} % {:>8.1f} s {:>8.1f} %\n", name, predicted,
             100 * seen.tbt_attainment, 100 * seen.per_token_attainment, seen.mean_e2e_s, 100 * seen.stall_share);
  return true;
}

} // namespace

int main() {
  const auto envelope = [](double optimism) { return Envelope{server.model, server.device, optimism}; };
  fmt::print("{} on {}; in the world four requests of 3,000 tokens decode in {:.1f} ms\n\n", server.model.name,
             server.device.name, decode_step_ms(world));
  fmt::print("{:<34} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "the planner's model", "that step", "TBT met", "per token",
             "mean E2E", "stalled");
  const bool served = row("the world's own model", world) &&                                 //
                      row("an envelope", envelope(1)) &&                                     //
                      row("an envelope, times a third", envelope(3)) &&                      //
                      row("an envelope, times three", envelope(1.0 / 3)) &&                  //
                      row("times a third, calibrated", Calibrated<Envelope>{envelope(3)}) && //
                      row("times three, calibrated", Calibrated<Envelope>{envelope(1.0 / 3)});
  if (std::fflush(stdout) != 0) return std::perror("a_cost_model: standard output"), 2;
  return served ? 0 : 2;
}
