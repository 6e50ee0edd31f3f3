// SPDX-License-Identifier: Apache-2.0
// OrbitFlow's runtime feedback (section 3.4): a machine that differs from its profile, served with the profile as it
// is, with the profile corrected by measured iterations, and with the machine's own times. Prints a table of
// docs/reproductions.md.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/calibrated.hpp"
#include "sluice/policy/cost/nlohmann/orbitflow_profile.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"

#include "shared/flag_errors.hpp"
#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace {

using namespace sluice;

/// A machine whose computation takes `compute` times, and whose transfers take `transfer` times, what a profile says:
/// another job on the same device or the same bus.
struct Disturbed {
  using role = roles::Cost;
  struct State {};

  LinearProfile profile;
  double compute = 1, transfer = 1;

  [[nodiscard]] StepTime step(const Work& work) const {
    const StepTime time = profile.step(work);
    return {time.before * compute, time.layer * compute, time.after * compute, time.on_link};
  }
  [[nodiscard]] LinkCost link() const {
    LinkCost link = profile.link();
    link.rate = link.rate / transfer;
    link.out_rate = link.out_rate / transfer;
    link.per_layer = link.per_layer * transfer;
    return link;
  }
  [[nodiscard]] const Disturbed& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
};
static_assert(explain<Disturbed>());

struct Experiment {
  std::string trace;
  Server server;
  Disturbed machine;
  Slo slo;
};

/// Serves the trace on the disturbed machine, with `cost` as the planner's model.
template <class Cost>
Expected<Metrics> serve_with(Cost cost, const Experiment& of) {
  using E = With<OrbitFlow, Immediate, Cost, BasicSimulated<Disturbed>, Summary>;
  const ModelShape& model = of.server.model;
  const Bytes block = model.layer_block_bytes(of.server.limits.block_tokens);
  Expected<E> engine = E::make({.limits = of.server.limits,
                                .geometry = {model.layers, block, model.layer_weight_bytes(),
                                             model.layer_hidden_bytes(of.server.limits.block_tokens)},
                                .device_blocks = across_layers(of.server.kv_blocks, model.layers),
                                .host_blocks = LayerBlocks{of.server.device.host_memory / block},
                                .cost = std::move(cost),
                                .backend = BasicSimulated<Disturbed>(of.machine)});
  if (!engine) return engine.error();
  Expected<Trace> requests = open_trace(of.trace, TraceFormat::orbitflow, {.slo = of.slo, .arrivals_in_steps = true});
  if (!requests) return requests.error();
  if (Status status = simulate(*engine, *requests); !status) return status.error();
  return measure(engine->template observed<Summary>(), engine->now());
}

Status print_rows(const Experiment& of) {
  const auto row = [&of](const char* planner, const Expected<Metrics>& made) -> Status {
    if (!made) return made.error();
    fmt::print("| {:g} | {:g} | {} | {:.1f} | {:.1f} | {:.1f} | {:.2f} | {:.1f} | {} |\n", of.machine.compute,
               of.machine.transfer, planner, 100 * made->tbt_attainment, 100 * made->per_token_attainment,
               1e3 * made->p95_tbt_s, made->throughput_tokens_per_s, made->mean_e2e_s, made->plans);
    return {};
  };
  const LinearProfile& profile = of.machine.profile;
  if (Status status = row("the profile as it is", serve_with(profile, of)); !status) return status;
  if (Status status = row("corrected by iterations", serve_with(Calibrated<LinearProfile>{profile}, of)); !status)
    return status;
  return row("the machine's times", serve_with(of.machine, of));
}

Status run(const std::string& data) {
  namespace fs = std::filesystem;
  const ModelShape model = llama3_8b();
  const Device device = a5000();
  const Expected<LinearProfile> profile =
      read_orbitflow_profile((fs::path{data} / "profiles/orbitflow/profiled_results_A5000.json").string(), model,
                             device.compute_rate(RooflineEfficiency{}.compute));
  if (!profile) return profile.error();
  const std::string trace = (fs::path{data} / "traces/orbitflow/32k_lambda2.0x_cv1.json").string();
  const Expected<OrbitFlowHeader> header = read_orbitflow_header(trace);
  if (!header) return header.error();
  Work full;
  full.decodes = full.samples = 1;
  full.decode_context = Tokens{header->budget.count() * Limits{}.block_tokens.count()};
  const Seconds step = profile->step(full).total(model.layers);
  fmt::print("Section 3.4: the trace x2, arrivals in steps, SLO x1.5 of the undisturbed step, no deposit\n\n"
             "| computation takes | transfers take | the planner's times | TBT | per token | P95 TBT, ms | tokens/s | "
             "mean E2E, s | plans |\n|--:|--:|---|--:|--:|--:|--:|--:|--:|\n");
  for (const auto& [compute, transfer] : {std::pair{1.0, 1.0}, {1.0, 2.0}, {1.3, 1.0}, {1.3, 2.0}}) {
    const Server server{model,
                        device,
                        header->budget,
                        {.batch = static_cast<int>(header->batch_size), .batch_tokens = header->max_model_len}};
    if (Status status = print_rows({trace, server, {*profile, compute, transfer}, {Seconds{5}, step * 1.5}}); !status)
      return status;
  }
  return {};
}

} // namespace

int main(int argc, char** argv) {
  const char* shared = std::getenv("SLUICE_SHARED");
  std::string data =
      shared != nullptr && *shared != '\0' ? (std::filesystem::path{shared} / "data").string() : "shared/data";
  CLI::App app{"OrbitFlow's runtime feedback on a machine that differs from its profile"};
  app.add_option("--data", data, "folder of the public traces and profiles");
  if (const std::optional<int> status = parse_or_say(app, argc, argv)) return *status;
  if (const Status ran = run(data); !ran) {
    fmt::print(stderr, "bench_orbitflow_feedback: {}\n", ran.error().line());
    return 2;
  }
  return 0;
}
