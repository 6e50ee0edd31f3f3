// SPDX-License-Identifier: Apache-2.0
// sluice-validate: replays a recorded vLLM run in simulation and compares its latencies with the measured ones.
//
// The problem: a simulator that compares policies is useful only if it predicts a real server. The run's requests
// arrive as recorded, vLLM's composition serves them with the settings in the run's meta.json, and an iteration takes
// the sum of its kernels' times as measured on that GPU. Nothing is fitted to the run. See docs/fidelity.md.
#include "sluice/report/observer/json_writer.hpp"

#include "shared/flags.hpp"
#include "shared/shipped.hpp"
#include "shared/whole_output.hpp"
#include "validate/comparison.hpp"
#include "validate/import/import.hpp"
#include "validate/recording.hpp"
#include "validate/suite.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace sluice;
using namespace recorded;

namespace {

// The comparison
// ----------------------------------------------------------------------------------------------------------

void print_table(const LatencyDistributions& real, const LatencyDistributions& simulated) {
  fmt::print("{:<16}{:>14}{:>14}{:>9}\n", "seconds", "measured", "simulated", "diff");
  double worst = 0.0;
  for (const Metric& metric : metrics) {
    for (const Figure& figure : figures) {
      const double a = figure.of(real.*metric.of);
      const double b = figure.of(simulated.*metric.of);
      const double percent = (b / a - 1.0) * 100.0;
      worst = std::max(worst, std::abs(percent));
      fmt::print("{:<16}{:>14.5f}{:>14.5f}{:>+8.2f}%\n", fmt::format("{} {}", metric.label, figure.name), a, b,
                 percent);
    }
  }
  fmt::print("largest difference: {:.2f} %\n", worst);
}

/// `prompts`: how the shared beginnings of prompts were found, on which the figures depend.
void print_json(const LatencyDistributions& real, const LatencyDistributions& simulated, std::string_view prompts) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("made_by", made_by().line());
  for (const Metric& metric : metrics) {
    json.key(metric.key).begin_object();
    for (const Figure& figure : figures) {
      json.key(figure.name).begin_object();
      json.key("measured").value(figure.of(real.*metric.of));
      json.key("simulated").value(figure.of(simulated.*metric.of));
      json.end_object();
    }
    json.end_object();
  }
  json.key("prompts").value(prompts);
  json.end_object();
  fmt::print("{}\n", text);
}

int fail(const Error& error) {
  fmt::print(stderr, "sluice-validate: {}\n", error.line());
  return 2;
}

struct Options {
  std::string run;
  std::string profile;
  std::string prompts;
  std::string list_shared;
  std::int64_t kv_blocks = 0;
  Mechanisms mechanisms;
  Stated stated;
  bool json = false;
};

/// Prints a dataset's facts in the format of validate/known_datasets.hpp.
int list_shared(const std::string& path) {
  const Expected<recorded::PromptTokens> prompts = recorded::read_prompts(path);
  if (!prompts) return fail(prompts.error());
  std::size_t tokens = 0;
  for (const auto& prompt : *prompts) tokens += prompt.size();
  fmt::print("// {} prompts, {} tokens\n", prompts->size(), tokens);
  for (const SharedBeginning& row : find_shared_beginnings(*prompts, recorded::shortest_known_beginning)) {
    fmt::print("{{{}, {}, {}}},\n", row.prompt, row.earlier, row.tokens);
  }
  return 0;
}

/// Refuses inputs that the replay of `server` would ignore.
Status check_stated(const Options& options, const Server& server) {
  const auto unused = [](const char* flag, std::string why, std::string expected) {
    return Error{ErrorCode::bad_input, flag, std::move(why), std::move(expected)};
  };
  const Stated& stated = options.stated;
  if (stated.multiprocessors > 0 && !options.mechanisms.tail)
    return unused("--multiprocessors", "only the tail of the longest sequence uses it", "--with tail too");
  if (server.tensor_parallel * server.data_parallel > 1) return {};
  const char* const flag = !stated.all_reduce.empty() ? "--all-reduce" : stated.link_rate > 0 ? "--peer-link" : nullptr;
  if (flag != nullptr) return unused(flag, "the recorded server has one device", "a server with several devices");
  return {};
}

int validate(const Options& options) {
  const Expected<Recording> recording = read_run(options.run, options.kv_blocks, options.prompts);
  if (!recording) return fail(recording.error());
  const Server& server = recording->server;
  if (Status status = check_stated(options, server); !status) return fail(status.error());
  const Expected<BuiltWorld> world =
      build_world(profile_at(options.profile), server, options.mechanisms, options.stated);
  if (!world) return fail(world.error());
  for (const std::vector<Input>* inputs : {&server.inputs, &world->inputs})
    for (const Input& input : *inputs)
      if (input.used(options.mechanisms))
        fmt::print(stderr, "sluice-validate: {}: {} ({})\n", source_name(input.source), input.what, input.from);
  const Expected<std::vector<Served>> served =
      replay(server, options.mechanisms, *world, recording->records, recording->due, recording->prompts);
  if (!served) return fail(served.error());
  const LatencyDistributions real = latencies_of(measured(recording->records));
  const LatencyDistributions simulated = latencies_of(*served);
  options.json ? print_json(real, simulated, recording->prompts_from) : print_table(real, simulated);
  return 0;
}

/// Mechanisms of a single run. Closed-loop clients are none: only a load generator's result says when its client wanted
/// to send, and the suite reads those.
std::string names_of_mechanisms() {
  std::string names;
  for (const MechanismName& mechanism : mechanism_names)
    if (mechanism.member != &Mechanisms::closed) names += (names.empty() ? "" : ", ") + std::string{mechanism.name};
  return names;
}
/// Stores the mechanisms that `text` names; returns the expectation if it names another.
std::string take_mechanisms(std::string_view text, Mechanisms& into) {
  into = {};
  if (text == "all") {
    into = Mechanisms::all();
    return {};
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto* const named =
        std::find_if(mechanism_names.begin(), mechanism_names.end(),
                     [&](const MechanismName& mechanism) { return mechanism.name == text.substr(begin, end - begin); });
    if (named != mechanism_names.end() && named->member == &Mechanisms::closed)
      return names_of_mechanisms() + ", or all; sluice-validate suite replays clients of load generators' results";
    if (named == mechanism_names.end()) return names_of_mechanisms() + ", or all";
    into.*named->member = true;
    begin = end + 1;
  }
  return into.tail && into.skew ? "tail or skew, not both" : "";
}

int suite(int argc, char** argv) {
  SuiteOptions options;
  Flags flags{"sluice-validate",
              "Replays every recording that it finds, with all mechanisms, and says how far each figure is off."};
  CLI::App& app = flags.app();
  CLI::Option* recordings = app.add_option("--recordings", options.recordings, "folder that is searched for them");
  app.add_option("--profiles", options.profiles,
                 "folder of bundles, named as the recordings (default: profiles in that folder or beside it)");
  flags.folder("--iterations", options.iterations,
               "write a picture of single iterations of each recording to this folder: measured minus simulated");
  app.add_flag("!--no-ablation", options.ablation, "leave out the replays with single mechanisms on and off");
  app.add_flag("--json", options.json, "print JSON instead of a table");
  if (const std::optional<int> status = flags.parse(argc, argv)) return *status;
  if (recordings->count() == 0) return fail({ErrorCode::bad_input, "--recordings", "is missing", "a folder"});
  return run_suite(options);
}

int program(int argc, char** argv) {
  if (argc > 1 && std::string_view{argv[1]} == "suite") return suite(argc - 1, argv + 1);
  if (argc > 1 && std::string_view{argv[1]} == "import") return imported::import_bundle(argc - 1, argv + 1);
  Options options;
  Flags flags{"sluice-validate",
              "Replays a recorded vLLM run in simulation and compares its latencies with the measured ones.\n"
              "`sluice-validate suite` does it for all recordings in a folder; `sluice-validate import "
              "aiconfigurator` and `... llmservingsim` write profiles from what others measured."};
  CLI::App& app = flags.app();
  CLI::Option* run = app.add_option("--run", options.run, "folder with requests.jsonl and meta.json");
  CLI::Option* profile =
      app.add_option("--profile", options.profile, "folder with the GPU's kernel times and the model's config");
  app.add_option("--prompts", options.prompts,
                 "the run's dataset, one JSON object per line with input_tok_ids (default: the file of its name in the "
                 "run's folder)");
  flags.whole("--kv-blocks", options.kv_blocks, 2, std::int64_t{1} << 32,
              "device memory for KV, in token blocks, for a run whose meta.json has no num_gpu_blocks");
  flags.other("--with", "mechanisms of the server, comma separated: " + names_of_mechanisms() + ", or all",
              [&](std::string_view text) { return take_mechanisms(text, options.mechanisms); });
  CLI::Option* all_reduce = app.add_option("--all-reduce", options.stated.all_reduce,
                                           "measured all-reduces between the server's devices (CSV: bytes,time_us)");
  CLI::Option* link =
      flags.rate("--peer-link", options.stated.link_rate, false, "instead: the rate of a ring between the devices");
  CLI::Option* latency =
      flags.number("--peer-latency", options.stated.link_latency_s, 0, true, "seconds of each collective on that ring");
  flags.whole("--multiprocessors", options.stated.multiprocessors, 1, 1 << 16,
              "of the GPU, for the tail (default: by the name in the profile's meta.yaml)");
  app.add_flag("--json", options.json, "print JSON instead of a table");
  app.add_option("--list-shared", options.list_shared,
                 "instead: print which prompts of this dataset begin alike (number, earlier number, tokens)")
      ->excludes(run, profile);
  if (const std::optional<int> status = flags.parse(argc, argv)) return *status;
  if (!options.list_shared.empty()) return list_shared(options.list_shared);
  for (const CLI::Option* needed : {run, profile}) {
    if (needed->count() == 0) return fail({ErrorCode::bad_input, needed->get_name(), "is missing", "a folder"});
  }
  if (all_reduce->count() > 0 && link->count() > 0)
    return fail({ErrorCode::bad_input, "--peer-link", "--all-reduce replaces it", "one of the two"});
  if (latency->count() > 0 && link->count() == 0)
    return fail({ErrorCode::bad_input, "--peer-latency", "there is no --peer-link", "the rate of that ring too"});
  return validate(options);
}

} // namespace

int main(int argc, char** argv) {
  return with_whole_output("sluice-validate", [&] { return program(argc, argv); });
}
