// SPDX-License-Identifier: Apache-2.0
// sluice-plan: solves placement problems written as JSON, and counts the weights and KV of models (--models).
//
// The problem: some requests decode together and their KV does not fit the device, so in some layers it stays on the
// host and is fetched just in time. Which layers of which request should that be? Goals of this program: read one
// problem and print one answer, with what the planner knows about it; and show how to use the planner and the evaluator
// without an engine:
//
//   sluice::Planner planner{sluice::candidate_space_of<sluice::DistanceSpace>,
//   sluice::search_rule_of<sluice::DeadlinePool>}; const sluice::Solution& solution = planner.solve(instance);
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/policy/placement/solver/placement_evaluator.hpp"
#include "sluice/policy/placement/solver/solve_problem.hpp"
#include "sluice/state/plan/nlohmann/problem_json.hpp"
#include "sluice/workload/line_reader.hpp"

#include "plan/example.hpp"
#include "plan/models.hpp"
#include "plan/vllm_offload.hpp"
#include "shared/flags.hpp"
#include "shared/kv_dtype.hpp"
#include "shared/whole_output.hpp"
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using Json = nlohmann::ordered_json;

/// A recording of the evaluator's timeline, which --explain prints and --timeline writes.
struct Recording {
  static constexpr bool enabled = true;
  struct Layer {
    int layer;
    double start_s, end_s, stall_s;
    StallCause cause;
  };
  struct Transfer {
    int stream, layer;
    double start_s, end_s;
  };
  std::vector<Layer> layers;
  std::vector<Transfer> transfers;

  void layer(int layer, double start_s, double end_s, double stall_s, StallCause cause) {
    layers.push_back({layer, start_s, end_s, stall_s, cause});
  }
  void transfer(int stream, int layer, double start_s, double end_s) {
    transfers.push_back({stream, layer, start_s, end_s});
  }
};

struct Answer {
  Solution solution;
  bool given = false; ///< the problem gives the placement; no search
  std::string reason; ///< why it is infeasible
  double solve_us = 0;
  Recording recording;
  std::vector<std::string> streams; ///< request ids in the order of the recording's streams
};

std::string blocks_text(double blocks) { return std::to_string(std::llround(blocks)); }

std::string why(const PlanningProblem& problem, const Solution& solution, bool given) {
  const double held = solution.resident_blocks + solution.buffer_blocks;
  switch (solution.binding) {
  case Binding::device_memory:
    return "device memory: " + std::string{given ? "the placement" : "offloading every layer of every request"} +
           " takes " + blocks_text(held) + " layer blocks at the first step (" + blocks_text(solution.resident_blocks) +
           " resident, " + blocks_text(solution.buffer_blocks) + " in flight); the device has " +
           std::to_string(problem.instance.device_blocks.count()) +
           (problem.instance.window_min > 1 ? ", and KV grows through the window" : "");
  case Binding::slo:
    return "SLO: " + std::string{given ? "the placement" : "every placement that fits"} +
           " misses more than alpha tokens per step";
  case Binding::search:
    return "search: the deadline passed before a placement that fits was found";
  default:
    return "";
  }
}

/// Solves the problem, or evaluates the given placement.
Answer answer_problem(const PlanningProblem& problem, bool record) {
  using Clock = std::chrono::steady_clock;
  // All problems of a batch with the same candidate space and search rule share one planner: it reuses its memory, but
  // no results.
  static std::map<std::pair<const CandidateSpace*, const SearchRule*>, Planner> planners;
  const PlannerTables tables = tables_of(problem);
  Planner& planner = planners.try_emplace({&tables.space, &tables.rule}, tables.space, tables.rule).first->second;
  PlacementEvaluator evaluator{*tables.rule.transfer};
  const Instance& instance = problem.instance;
  Answer answer;
  const auto begin = Clock::now();
  if (problem.placement) {
    answer.given = true;
    Solution& s = answer.solution;
    const PlacementCost cost = evaluator.cost(instance, *problem.placement);
    const WindowCheck held = evaluator.hold(instance, *problem.placement, cost);
    s.offloaded = *problem.placement;
    s.resident_blocks = cost.resident_blocks;
    s.buffer_blocks = cost.buffer_blocks;
    s.step_s = cost.step.step_s;
    s.stall_s = cost.step.stall_s;
    s.window = held.window;
    s.feasible = held.window > 0;
    s.binding = s.feasible && s.stall_s > 0 ? Binding::link : held.binding;
    s.lower_bound_s = instance.before_s + instance.after_s;
    for (const double seconds : instance.layer_compute_s) s.lower_bound_s += seconds;
    s.proven_optimal = s.feasible && s.stall_s == 0;
  } else {
    planner.solve(instance);
  }
  answer.solve_us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  if (!problem.placement) answer.solution = planner.solution();
  if (!answer.solution.feasible) answer.reason = why(problem, answer.solution, answer.given);
  if (record && std::isfinite(answer.solution.step_s)) {
    with_rule(problem.transfer,
              [&]<class Rule>() { evaluator.explain<Rule>(instance, answer.solution.offloaded, answer.recording); });
    for (std::size_t r = 0; r < problem.ids.size(); ++r)
      if (!answer.solution.offloaded[r].empty() && instance.requests[r].blocks > LayerBlocks{0})
        answer.streams.push_back(problem.ids[r]);
  }
  return answer;
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json whole(double value) { return Json(std::llround(value)); }

Json to_json(const PlanningProblem& problem, const Answer& answer) {
  const Solution& s = answer.solution;
  Json placement = Json::object();
  if (s.feasible || answer.given)
    for (std::size_t r = 0; r < problem.ids.size(); ++r) {
      Json layers = Json::array();
      s.offloaded[r].for_each([&](int layer) { layers.push_back(layer + 1); });
      placement[problem.ids[r]] = std::move(layers);
    }
  const bool shown = s.feasible || answer.given;
  return Json{{"feasible", s.feasible},
              {"reason", answer.reason},
              {"resident_blocks", shown ? whole(s.resident_blocks) : Json(nullptr)},
              {"buffer_blocks", shown ? whole(s.buffer_blocks) : Json(nullptr)},
              {"step_s", shown ? finite(s.step_s) : Json(nullptr)},
              {"stall_s", shown ? finite(s.stall_s) : Json(nullptr)},
              {"placement", std::move(placement)},
              {"lower_bound_s", shown ? finite(s.lower_bound_s) : Json(nullptr)},
              {"proven_optimal", s.feasible && s.proven_optimal},
              {"binding", std::string{name_of(s.binding)}},
              {"next_best_s", finite(s.next_best_s)},
              {"window", s.window},
              {"nodes", s.nodes},
              {"solve_us", answer.solve_us}};
}

void explain(const PlanningProblem& problem, const Answer& answer) {
  const Solution& s = answer.solution;
  const Instance& instance = problem.instance;
  if (!s.feasible) std::printf("infeasible    %s\n", answer.reason.c_str());
  if (!s.feasible && !answer.given) return;
  std::printf("step          %.6g s, of which %.6g s stalled\n", s.step_s, s.stall_s);
  std::printf("memory        %.0f resident + %.0f in flight of %lld layer blocks\n", s.resident_blocks, s.buffer_blocks,
              static_cast<long long>(instance.device_blocks.count()));
  if (!answer.given) {
    std::printf("lower bound   %.6g s: %s\n", s.lower_bound_s,
                s.proven_optimal ? "no placement of this space is shorter" : "the search stopped before the proof");
    std::printf("binds         %s\n",
                s.stall_s > 0 ? "device memory, which forces transfers, and the link, which stalls the layers below"
                              : "nothing: no layer waits");
    if (std::isfinite(s.next_best_s))
      std::printf("next best     %.6g s, at most (+%.2f %%)\n", s.next_best_s, 100 * (s.next_best_s / s.step_s - 1));
    std::printf("search        %lld nodes, %.1f us\n", static_cast<long long>(s.nodes), answer.solve_us);
  }
  std::printf("window        %d steps\n", s.window);
  for (std::size_t r = 0; r < problem.ids.size(); ++r) {
    std::printf("offloaded     %s: %.0f blocks in %d layers:", problem.ids[r].c_str(), instance.blocks_at(r, 0),
                s.offloaded[r].count());
    s.offloaded[r].for_each([](int layer) { std::printf(" %d", layer + 1); });
    std::printf("\n");
  }
  for (const Recording::Layer& layer : answer.recording.layers)
    if (layer.stall_s > 0)
      std::printf("stall         layer %d waits %.6g s: %s\n", layer.layer + 1, layer.stall_s,
                  layer.cause == StallCause::link ? "the link was busy the whole time"
                                                  : "its blocks had to wait for room, or for their turn to start");
}

/// Chrome's trace event format, which ui.perfetto.dev opens: compute on one track, the link on others.
Json trace_of(const Answer& answer) {
  Json events = Json::array();
  const auto name = [&](int track, const std::string& text) {
    events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", track}, {"args", {{"name", text}}}});
  };
  const auto slice = [&](int track, const std::string& text, double start_s, double end_s) {
    events.push_back({{"name", text},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", track},
                      {"ts", start_s * 1e6},
                      {"dur", (end_s - start_s) * 1e6}});
  };
  name(1, "compute");
  name(2, "link");
  for (std::size_t s = 0; s < answer.streams.size(); ++s) name(3 + static_cast<int>(s), "link: " + answer.streams[s]);
  const int layers = static_cast<int>(answer.recording.layers.size());
  for (const Recording::Layer& layer : answer.recording.layers) {
    if (layer.stall_s > 0)
      slice(1, std::string{"stall: "} + to_string(layer.cause), layer.start_s - layer.stall_s, layer.start_s);
    slice(1, "layer " + std::to_string(layer.layer + 1), layer.start_s, layer.end_s);
  }
  for (const Recording::Transfer& transfer : answer.recording.transfers)
    slice(transfer.stream < 0 ? 2 : 3 + transfer.stream,
          "layer " + std::to_string(transfer.layer % layers + 1) +
              (transfer.layer >= layers ? " of the next token" : ""),
          transfer.start_s, transfer.end_s);
  return {
      {"displayTimeUnit", "ms"}, {"otherData", {{"made_by", made_by().line()}}}, {"traceEvents", std::move(events)}};
}

int fail(const Error& error) {
  std::fprintf(stderr, "sluice-plan: %s\n", error.line().c_str());
  return 2;
}

int run(std::istream& in, const std::string& where, bool batch, bool explained, const std::string& timeline) {
  const auto answer_text = [&](const std::string& text, std::optional<std::int64_t> line) -> int {
    const std::string here = line ? where + ":" + std::to_string(*line) : where;
    const Expected<nlohmann::json> object = parse_json_object(text, where, line);
    if (!object) return fail(object.error());
    const Expected<PlanningProblem> problem = read_problem(*object, here);
    if (!problem) return fail(problem.error());
    const Answer answer = answer_problem(*problem, explained || !timeline.empty());
    if (explained)
      explain(*problem, answer);
    else
      std::cout << to_json(*problem, answer).dump() << '\n';
    if (!timeline.empty()) {
      std::ofstream file(timeline);
      file << trace_of(answer).dump() << '\n';
      if (!file.flush()) return fail({ErrorCode::bad_input, timeline, "the file cannot be written", "a writable path"});
    }
    return 0;
  };
  const Error unreadable{ErrorCode::bad_input, where, "it cannot be read", "a readable file, not a folder"};
  std::string text;
  if (!batch) {
    std::getline(in, text, '\0'); // JSON has no zero byte
    if (in.bad() || (in.fail() && !in.eof())) return fail(unreadable);
    return answer_text(text, std::nullopt);
  }
  std::int64_t line = 1;
  for (; std::getline(in, text); ++line) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (const int status = answer_text(text, line); status != 0) return status;
  }
  return in.bad() ? fail(unreadable) : 0;
}

int program(int argc, char** argv) {
  Flags flags{"sluice-plan",
              "Solves placement problems: which layers of which request to offload, so that the next iteration is "
              "shortest."};
  std::string path;
  std::string timeline;
  bool batch = false;
  bool explained = false;
  bool example = false;
  std::string models;
  planned::OffloadQuestion offload;
  bool json = false;
  bool types = false;
  CLI::App& app = flags.app();
  app.footer(planned::fields);
  app.add_option("FILE", path, "a JSON problem; standard input if absent or '-'");
  app.add_flag("--batch", batch, "read one problem per line, write one answer per line");
  app.add_flag(
      "--explain", explained,
      "print text for a reader: the limiting resource, each stall and its cause, the next best plan, the bound");
  app.add_option("--timeline", timeline, "write the iteration as a trace for ui.perfetto.dev");
  app.add_flag("--example", example, "write an example problem, and stop");
  app.add_option("--models", models, "count weights and KV of the models in this folder's folders, and stop");
  flags.name("--kv-dtype", offload.kv_dtype, std::string{"with --models or --vllm-offload, "} + kv_dtype_help);
  app.add_flag("--json", json, "with --models, one JSON line per model");
  app.add_flag("--model-types", types, "print the model types that --models reads, and stop");
  app.add_option("--vllm-offload", offload.model,
                 "print vLLM's flags that offload most weights of this model, a name or a folder, within --slo-tbt");
  app.add_option("--device", offload.device, "with --vllm-offload, a device by name, or a JSON file")
      ->capture_default_str();
  flags.number("--slo-tbt", offload.slo_s, 0, false, "with --vllm-offload, the longest decode step in seconds");
  flags.whole("--decodes", offload.batch, 1, 1'000'000,
              "with --vllm-offload, requests that decode together (default: 1)");
  flags.whole("--context-tokens", offload.context, 1, 1 << 24,
              "with --vllm-offload, tokens that each request has (default: 2048)");
  if (const std::optional<int> status = flags.parse(argc, argv)) return *status;
  if (example) {
    std::fputs(planned::example, stdout);
    return 0;
  }
  if (types) {
    planned::print_model_types();
    return 0;
  }
  const auto alone = [&](const char* given, std::initializer_list<const char*> others) -> Status {
    for (const char* other : others)
      if (app.count(other) > 0)
        return Error{ErrorCode::bad_input, other, std::string{given} + " is given as well", "one of the two"};
    return {};
  };
  const auto done = [](const Status& status) { return status ? 0 : fail(status.error()); };
  if (app.count("--models") > 0) {
    if (const Status status = alone("--models", {"FILE", "--batch", "--explain", "--timeline", "--vllm-offload"});
        !status)
      return fail(status.error());
    return done(planned::print_models(models, json, offload.kv_dtype));
  }
  if (app.count("--vllm-offload") > 0) {
    if (const Status status = alone("--vllm-offload", {"FILE", "--batch", "--explain", "--timeline", "--json"});
        !status)
      return fail(status.error());
    if (app.count("--slo-tbt") == 0)
      return fail(
          {ErrorCode::bad_input, "--vllm-offload", "there is no --slo-tbt", "the longest decode step in seconds"});
    return done(planned::print_vllm_offload(offload));
  }
  for (const char* other : {"--json", "--kv-dtype", "--device", "--slo-tbt", "--decodes", "--context-tokens"})
    if (app.count(other) > 0)
      return fail({ErrorCode::bad_input, other, "it applies to --models or --vllm-offload alone", "one of them"});
  if (batch && !timeline.empty())
    return fail({ErrorCode::bad_input, "--timeline", "a batch has many timelines", "one problem without --batch"});
  std::ios::sync_with_stdio(false);
  if (path.empty() || path == "-") return run(std::cin, "stdin", batch, explained, timeline);
  const Expected<std::unique_ptr<std::istream>> file = open_trace_file(path);
  if (!file) return fail(file.error());
  return run(**file, path, batch, explained, timeline);
}

} // namespace

int main(int argc, char** argv) {
  return with_whole_output("sluice-plan", [&] { return program(argc, argv); });
}
