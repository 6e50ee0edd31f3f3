// SPDX-License-Identifier: Apache-2.0
// sluice-fleet: engines behind routers, simulated.
//
// The problem: what an offload policy is worth depends on which requests an engine gets, and a router decides that.
// Goals of this program: serve any workload with any system behind any router, prefill and decode together or apart;
// say what users get and how old the router's knowledge was; and replay fleets that others measured.
#include "engines/program.hpp"

#include "sluice/core/text.hpp"

#include "compare/command_line.hpp"
#include "compare/comparison.hpp"
#include "compare/systems.hpp"
#include "fleet/ladder.hpp"
#include "fleet/page.hpp"
#include "fleet/ranks.hpp"
#include "fleet/replay.hpp"
#include "shared/kv_dtype.hpp"
#include "shared/link_flag.hpp"
#include "shared/out_folder.hpp"
#include "shared/progress.hpp"
#include "shared/set_flag.hpp"
#include "shared/slo_classes_flag.hpp"
#include "shared/trace_flags.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace fleets {
int program(int argc, char** argv);
}

namespace {

using namespace sluice;
using namespace fleets;
using compared::Comparison;
using compared::flag_error;

int fail(const Error& error) {
  std::fprintf(stderr, "%s: %s\n", engines::program_name(), error.line().c_str());
  return 2;
}

/// A router of --router: "precise", "precise:1:1:2" with the weights of its scorers, or "NAME=precise:1:1:2".
struct ChosenRouter {
  std::string name; ///< in tables
  const RouterRow* row = nullptr;
  std::vector<double> weights; ///< empty: the router's own
};

Expected<ChosenRouter> read_router(std::string_view text) {
  ChosenRouter chosen;
  const std::size_t equals = text.find('=');
  const std::string_view spec = equals == text.npos ? text : text.substr(equals + 1);
  const std::string_view name = spec.substr(0, spec.find(':'));
  chosen.name = equals == text.npos ? name : text.substr(0, equals);
  std::vector<std::string_view> names;
  for (const RouterRow& row : routers()) {
    names.push_back(row.name);
    if (row.name == name) chosen.row = &row;
  }
  if (chosen.row == nullptr || chosen.name.empty())
    return flag_error("--router",
                      chosen.row == nullptr
                          ? fmt::format("there is no router '{}'{}", excerpt(name), did_you_mean(name, names))
                          : fmt::format("'{}' has an empty name", excerpt(text)),
                      "a name that --list prints, several with commas, or all");
  for (std::size_t at = name.size(); at < spec.size();) {
    const std::size_t end = std::min(spec.find(':', at + 1), spec.size());
    double weight = 0;
    if (!read_double(spec.substr(at + 1, end - at - 1), weight) || weight < 0 || weight > 1e9)
      return flag_error("--router", fmt::format("'{}' has a weight that is no number", excerpt(text)),
                        "weights from 0 to 1e+09, such as precise:1:1:2");
    chosen.weights.push_back(weight);
    at = end;
  }
  if (!chosen.weights.empty() && chosen.weights.size() != chosen.row->scorers)
    return flag_error("--router",
                      fmt::format("'{}' has {} weight{}", excerpt(text), chosen.weights.size(),
                                  chosen.weights.size() == 1 ? "" : "s"),
                      chosen.row->scorers == 0 ? fmt::format("none: {} has no scorers", name)
                                               : fmt::format("{}, in the order of --list", chosen.row->scorers));
  return chosen;
}

Expected<std::vector<ChosenRouter>> chosen_routers(const std::string& list) {
  std::vector<ChosenRouter> chosen;
  if (list == "all") {
    for (const RouterRow& row : routers()) chosen.push_back({std::string{row.name}, &row, {}});
    return chosen;
  }
  for (const std::string_view text : parts_of(list)) {
    Expected<ChosenRouter> one = read_router(text);
    if (!one) return one.error();
    for (const ChosenRouter& other : chosen)
      if (other.name == one->name)
        return flag_error("--router", fmt::format("'{}' is named twice", excerpt(one->name)),
                          "each router once, or with names: NAME=ROUTER");
    chosen.push_back(*std::move(one));
  }
  return chosen;
}

/// A flag that has no meaning without another one.
struct Needed {
  const char *flag, *other, *what, *expected;
};
constexpr const char* both_pools = "--prefill and --decode as well";
constexpr std::array<Needed, 8> needed{{
    {"--prefill", "--decode", "there is no --decode", "engines of both pools, such as --prefill 1 --decode 3"},
    {"--decode", "--prefill", "there is no --prefill", "engines of both pools, such as --prefill 1 --decode 3"},
    {"--decode-system", "--decode", "there is one pool", both_pools},
    {"--handoff", "--decode", "there is one pool", both_pools},
    {"--kv-copy", "--decode", "there is one pool", both_pools},
    {"--restart", "--fail", "no engine dies", "--fail as well"},
    {"--scale-waiting", "--scale-from", "all engines take requests from the start", "--scale-from as well"},
    {"--scale-delay", "--scale-from", "all engines take requests from the start", "--scale-from as well"},
}};
/// Flags of a ladder of rates, which --preset and --stages ask for.
constexpr std::array<const char*, 4> of_ladders{"--shared-prefix", "--arrivals", "--in-flight", "--recording"};
/// Flags of other workloads. A ladder's requests have no SLO.
constexpr std::array<const char*, 15> of_workloads{"--trace",     "--format",   "--trace-columns", "--trace-block",
                                                   "--benchmark", "--generate", "--limit",         "--rate-scale",
                                                   "--sessions",  "--resample", "--windows",       "--slo-scale",
                                                   "--slo-tbt",   "--slo-ttft", "--slo-classes"};
/// Flags that a replay reads; all else is the recording's.
constexpr std::array<const char*, 12> of_replays{"--replay",  "--system", "--every", "--host-step",
                                                 "--kv-copy", "--model",  "--batch", "--max-batch-tokens",
                                                 "--threads", "--out",    "--json",  "--quiet"};

/// Seconds whose windows can be counted.
Status check_seconds(const Options& options) {
  const std::tuple<const char*, double, double> all[] = {{"--every", options.every, 1e-6},
                                                         {"--scale-delay", options.scale_delay, 0},
                                                         {"--host-step", options.host_step, 0},
                                                         {"--kv-copy", options.kv_copy, 0}};
  for (const auto& [flag, value, least] : all)
    if (value < least || value > 1e6)
      return flag_error(flag, fmt::format("it is {:g}", value), fmt::format("seconds from {:g} to 1e+06", least));
  return {};
}

Status check_replay(const Options& options) {
  for (const std::string& flag : options.given)
    if (std::find(of_replays.begin(), of_replays.end(), flag) == of_replays.end())
      return flag_error(flag, "a replay does not read it", "--replay without it");
  return check_seconds(options);
}

/// Checks flags against each other.
Status check(const Options& options) {
  for (const Needed& one : needed)
    if (options.gave(one.flag) && !options.gave(one.other)) return flag_error(one.flag, one.what, one.expected);
  if (options.gave("--engines") && options.prefill)
    return flag_error("--engines", "there are two pools", "--engines, or --prefill and --decode");
  if (options.has_ladder()) {
    for (const char* flag : of_workloads)
      if (options.gave(flag))
        return flag_error(flag, "a ladder has its own workload", "--preset or --stages without it");
  } else {
    for (const char* flag : of_ladders)
      if (options.gave(flag)) return flag_error(flag, "there is no ladder of rates", "--preset or --stages as well");
  }
  const std::int64_t all = options.prefill ? *options.prefill + *options.decode : options.engines;
  for (const Failure& one : options.failures)
    if (static_cast<std::int64_t>(one.engine) >= all)
      return flag_error("--fail", fmt::format("engine {} is to die, and there are {}", one.engine, all),
                        fmt::format("an engine from 0 to {}", all - 1));
  if (options.scale_from && *options.scale_from > options.prefill.value_or(options.engines))
    return flag_error("--scale-from", fmt::format("it is {}", *options.scale_from), "at most the engines of the pool");
  return check_seconds(options);
}

std::vector<std::uint64_t> seeds_of(const Options& options) {
  return options.workload.seeds.empty() ? std::vector<std::uint64_t>{options.workload.seed} : options.workload.seeds;
}

/// Runs each router on each seed. Other threads than this one run fleets, so that this one can show progress.
Expected<std::vector<RouterRuns>> run_all(const Options& options, const Comparison& comparison,
                                          const std::vector<ChosenRouter>& chosen, Ranks* ranks) {
  const auto find = [&](const std::string& name) {
    return *std::find_if(comparison.systems.begin(), comparison.systems.end(),
                         [&](const engines::System* one) { return one->name == name; });
  };
  const std::vector<std::uint64_t> seeds = seeds_of(options);
  std::vector<RouterRuns> all;
  for (const ChosenRouter& one : chosen) all.push_back({one.name, std::vector<Ran>(seeds.size())});
  const std::size_t jobs = chosen.size() * seeds.size();
  const auto processors = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const std::int64_t threads = options.threads.value_or(processors);
  const std::size_t at_once = ranks != nullptr ? 1 : std::min<std::size_t>(jobs, static_cast<std::size_t>(threads));
  std::atomic<std::int64_t> ended{0};
  std::atomic<std::size_t> next{0}, done{0};
  std::mutex mutex;
  Status status;
  const auto run_one = [&](std::size_t job) -> Status {
    const std::size_t router = job / seeds.size(), seed = job % seeds.size();
    Fleets of;
    of.setup = comparison.redrawn.empty() ? &comparison.setup : &comparison.redrawn[seed];
    of.system = find(options.system);
    of.engines = static_cast<std::size_t>(options.prefill.value_or(options.engines));
    if (options.decode) {
      of.decoder = find(options.decoder.empty() ? options.system : options.decoder);
      of.decoders = static_cast<std::size_t>(*options.decode);
    }
    of.slo = slo_at(comparison, comparison.scales.front());
    of.deposit = options.deposit == "on";
    of.every = Seconds{options.every};
    of.seed = seeds[seed];
    of.weights = chosen[router].weights;
    of.settings.handoff = options.handoff;
    of.settings.failures = {options.failures, options.restarted ? Interrupted::restarted : Interrupted::resumed};
    if (options.scale_from)
      of.settings.scaler = {static_cast<std::size_t>(*options.scale_from), options.scale_waiting,
                            Seconds{options.scale_delay}};
    of.settings.threads = static_cast<int>(std::max<std::int64_t>(1, threads / static_cast<std::int64_t>(at_once)));
    of.copies = Seconds{options.kv_copy * of.setup->geometry.layers};
    of.ranks = ranks;
    of.notes = options.has_ladder() || (!options.out.empty() && seed == 0);
    of.ended = &ended;
    std::unique_ptr<Clients> clients;
    if (options.has_ladder()) {
      clients = std::make_unique<LadderClients>(options.ladder, of.setup->limits.block_tokens, seeds[seed]);
    } else {
      Expected<engines::Requests> requests = static_cast<const compared::Setup*>(of.setup)->open(of.slo);
      if (!requests) return requests.error();
      clients = std::make_unique<TraceClients>(*std::move(requests), of.setup->limits.block_tokens);
    }
    Expected<Ran> ran = chosen[router].row->run(of, *clients);
    if (!ran) return ran.error();
    all[router].runs[seed] = *std::move(ran);
    return {};
  };
  const auto work = [&] {
    for (std::size_t job = next++; job < jobs; job = next++) {
      const Status ran = run_one(job);
      const std::lock_guard lock(mutex);
      if (!ran && status.ok()) status = ran;
      if (!ran) next = jobs;
      ++done;
    }
  };
  std::int64_t each = comparison.workload.requests;
  if (options.has_ladder()) {
    each = 0;
    for (const Stage& stage : options.ladder.stages) each += stage.requests();
  }
  Progress progress(static_cast<double>(each) * static_cast<double>(jobs), stderr,
                    options.quiet || (ranks != nullptr && ranks->rank() > 0) ? Progress::Style::silent
                                                                             : Progress::Style::detect);
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < at_once; ++i) workers.emplace_back(work);
  while (done < jobs && next < jobs + at_once) {
    progress.update(static_cast<double>(ended), fmt::format("{} of {} runs", done.load(), jobs));
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    if (const std::lock_guard lock(mutex); !status.ok()) break;
  }
  for (std::thread& worker : workers) worker.join();
  progress.update(static_cast<double>(ended), fmt::format("{} of {} runs", done.load(), jobs));
  progress.finish();
  if (!status) return status.error();
  return all;
}

/// Sets what a preset has and the user did not give. Error: there is none of that name.
Expected<const LadderPreset*> set_preset(Options& options) {
  std::vector<std::string_view> names;
  for (const LadderPreset& one : ladder_presets()) {
    names.push_back(one.name);
    if (one.name != options.preset) continue;
    one.set(options);
    return &one;
  }
  return flag_error(
      "--preset",
      fmt::format("there is no preset '{}'{}", excerpt(options.preset), did_you_mean(options.preset, names)),
      "a name that --list prints");
}

/// Checks a ladder's prompts, and asks for machine, limits and policies as one of its requests needs them.
Status set_prompts(Options& options) {
  Ladder& ladder = options.ladder;
  if (options.gave("--shared-prefix")) (void)read_prompts(options.shared_prefix, ladder); // it was checked
  if (ladder.own.count() == 0 || ladder.output.count() == 0)
    return flag_error("--shared-prefix", "there is no preset, and own or output is missing",
                      "groups=N,users=N,shared=TOKENS,own=TOKENS,output=TOKENS");
  const auto prompts = static_cast<std::int64_t>(ladder.prompts());
  if (const std::int64_t tokens = prompts * (ladder.shared + ladder.own).count();
      prompts > 1'000'000 || tokens > 1'000'000'000)
    return flag_error("--shared-prefix", fmt::format("there are {} prompts with {} tokens in all", prompts, tokens),
                      "at most 1000000 prompts with 1000000000 tokens");
  options.workload.generate = fmt::format("poisson:rate=1,requests=1,prompt={},output={}",
                                          (ladder.shared + ladder.own).count(), ladder.output.count());
  return {};
}

int run(Options options, const std::string& command) {
  if (options.list_names) {
    for (const RouterRow& row : routers()) fmt::print("{:<14}{}\n", row.name, row.what);
    for (const LadderPreset& one : ladder_presets()) fmt::print("\n--preset {}: {}\n", one.name, one.what);
    return 0;
  }
  const LadderPreset* preset = nullptr;
  std::vector<StageRow> measured;
  if (!options.preset.empty()) {
    const Expected<const LadderPreset*> found = set_preset(options);
    if (!found) return fail(found.error());
    preset = *found;
  }
  if (Status checked = check(options); !checked) return fail(checked.error());
  if (options.has_ladder())
    if (Status checked = set_prompts(options); !checked) return fail(checked.error());
  Expected<std::vector<ChosenRouter>> chosen = chosen_routers(options.routers);
  if (!chosen) return fail(chosen.error());
  if (!options.recording.empty()) {
    Expected<std::vector<StageRow>> read = read_recording(options.recording);
    if (!read) return fail(read.error());
    measured = *std::move(read);
  }
  options.systems = options.system;
  if (!options.decoder.empty() && options.decoder != options.system) options.systems += "," + options.decoder;
  std::unique_ptr<Ranks> ranks;
  if (options.mpi) {
    Expected<std::unique_ptr<Ranks>> started = start_ranks();
    if (!started) return fail(started.error());
    ranks = *std::move(started);
  }
  compared::Options asked = options;
  asked.preset.clear(); // sluice-compare's are others
  Expected<Comparison> comparison = prepare_seeds(asked, command);
  Status prepared = comparison ? Status{} : Status{comparison.error()};
  if (!prepared && prepared.error().where == "--systems")
    prepared = Error{prepared.error().code, "--system", prepared.error().what, prepared.error().expected};
  // A file may be missing on one rank's machine.
  if (Status all = agree(ranks.get(), prepared); !all) return fail(all.error());
  if (options.host_step > 0 || options.kv_copy > 0) {
    const auto host = [&](engines::Setup& setup) {
      setup.cost = setup.cost.with_host({Seconds{options.host_step}, Seconds{options.kv_copy}});
    };
    host(comparison->setup);
    for (compared::Setup& setup : comparison->redrawn) host(setup);
  }
  const bool leads = ranks == nullptr || ranks->rank() == 0;
  if (!options.out.empty() && leads)
    if (Status made = compared::make_folder(options.out); !made) return fail(made.error());
  const Expected<std::vector<RouterRuns>> all = run_all(options, *comparison, *chosen, ranks.get());
  if (!all) return leads ? fail(all.error()) : 2;
  if (!leads) return 0;
  const bool windows = options.workload.windows > 0;
  const std::vector<std::uint64_t> seeds = seeds_of(options);
  if (options.has_ladder()) {
    const std::vector<StageRow> rows = stage_rows(options.ladder, *all);
    const std::vector<LadderInput> inputs = preset != nullptr ? preset->inputs(options) : std::vector<LadderInput>{};
    if (options.json) {
      std::fputs(ladder_json(rows, inputs).c_str(), stdout);
    } else {
      std::fputs((ladder_table(rows, measured) + refusals_of(*all)).c_str(), stdout);
      fmt::print("\n");
      for (const LadderInput& one : inputs) fmt::print("input: {} ({})\n", one.what, one.from);
    }
  } else if (options.json) {
    std::fputs(json_of(*all, seeds, windows).c_str(), stdout);
  } else {
    fmt::print("{}: {} requests, {} engines of {}{}\n", comparison->workload.trace, comparison->workload.requests,
               options.prefill ? fmt::format("{} + {}", *options.prefill, *options.decode)
                               : fmt::format("{}", options.engines),
               options.system, options.decoder.empty() ? "" : " and " + options.decoder);
    for (const std::string& caution : comparison->workload.cautions) fmt::print("caution: {}\n", caution);
    fmt::print("\n");
    std::fputs((table_of(*all, windows) + refusals_of(*all)).c_str(), stdout);
  }
  if (options.out.empty()) return 0;
  const std::vector<NamedText> files{{"fleet.html", fleet_page(options, *comparison, *all, command)},
                                     {"fleet.json", json_of(*all, seeds, windows)}};
  if (Status written = write_all(options.out, files); !written) return fail(written.error());
  if (!options.json) fmt::print("\n{0}/fleet.html  for reading\n{0}/fleet.json  for programs\n", options.out);
  return 0;
}

} // namespace

int fleets::program(int argc, char** argv) {
  ::Options options;
  options.deposit = "off";
  options.composes = true;
  Flags flags{engines::program_name(),
              "Serves one workload with engines behind routers, simulated, and says what users "
              "get and what the router knew."};
  CLI::App& app = flags.app();
  constexpr std::int64_t many = 1'000'000'000;
  constexpr std::int64_t whole = std::numeric_limits<std::int64_t>::max();
  flags.name("--preset", options.preset, "a published load test's inputs by name; --list names them");
  flags.name("--recording", options.recording,
             "with a ladder: a CSV of the measured figures by router and stage, to compare with");
  flags.other("--replay",
              "instead: replay a recorded fleet, a folder with config/, profile/, reference/ and a CSV of requests "
              "(docs/fleet.md)",
              [&options](const std::string& text) -> std::string {
                options.replay = text;
                return text.empty() ? "a folder" : "";
              });
  flags
      .name("--router", options.routers,
            "routers by name, several with commas, or all; --list names them. ROUTER:WEIGHT:... sets its scorers' "
            "weights, NAME=ROUTER its name in the tables")
      ->default_str(options.routers);
  flags.whole("--engines", options.engines, 1, 1'000'000,
              "engines that serve requests from prompt to answer "
              "(default: 4; 8 of a preset)");
  flags.whole("--prefill", options.prefill, 1, 1'000'000, "instead: engines that compute prompts");
  flags.whole("--decode", options.decode, 1, 1'000'000, "and engines that generate");
  flags.name("--system", options.system, "every engine's system, by a name of sluice-compare --list")
      ->default_str(options.system);
  flags.name("--decode-system", options.decoder, "another one for the engines of --decode");
  flags.other("--handoff",
              "the network between the pools: rate=25GB/s,latency=SECONDS,by=whole or by=layer (default: "
              "takes no time)",
              [&options](const std::string& text) { return read_handoff(text, options.handoff); });
  flags.number("--every", options.every, 0, true,
               "seconds between an engine's reports to the router (default: 0.1; "
               "0.05 of a preset, 0.001 of a replay)");
  flags.other("--fail", "engines that die, each ENGINE@SECONDS, with commas",
              [&options](const std::string& text) { return read_failures(text, options.failures); });
  app.add_flag("--restart", options.restarted,
               "with --fail: answers that were interrupted begin anew (default: another "
               "engine goes on with them)");
  flags.whole("--scale-from", options.scale_from, 1, 1'000'000,
              "engines from the start; others are started as requests wait");
  flags.number("--scale-waiting", options.scale_waiting, 0, true,
               "with --scale-from: requests that wait per engine when another is started (default: 10)");
  flags.number("--scale-delay", options.scale_delay, 0, true,
               "with --scale-from: seconds until it takes requests (default: 60)");
  flags.number("--host-step", options.host_step, 0, true,
               "seconds of each iteration in which the device waits for the server's host "
               "(default: 0; 0.0055 of a preset)");
  flags.number("--kv-copy", options.kv_copy, 0, true,
               "seconds per layer in which a connector copies a request's KV, in both pools (default: 0; 0.0002 of a "
               "replay)");
  flags.other("--stages",
              "a ladder of rates: stages RATE:SECONDS with commas, of which the first warms (default: the "
              "preset's)",
              [&options](const std::string& text) { return read_stages(text, options.ladder.stages); });
  flags.other("--arrivals",
              "of a ladder: poisson, scaled (the same in exactly a stage's seconds) or even (default: "
              "poisson)",
              [&options](const std::string& text) { return read_arrivals(text, options.ladder.arrivals); });
  flags.other("--shared-prefix",
              "of a ladder: its prompts, groups=N,users=N,shared=TOKENS,own=TOKENS,output=TOKENS "
              "(default: the preset's)",
              [&options](const std::string& text) {
                options.shared_prefix = text;
                return read_prompts(text, options.ladder);
              });
  flags.whole("--in-flight", options.ladder.in_flight, 0, many,
              "of a ladder: requests in flight at most; 0: no limit (default: 0; 800 of a preset)");
  add_trace_flags(flags, options.workload, "a trace file (default: a generated workload, \"demo\")");
  app.add_option("--generate", options.workload.generate,
                 "a generated workload instead, e.g. sharegpt:rate=2,requests=200; see docs/workloads.md");
  flags.whole("--limit", options.workload.limit, 0, whole, "serve the first N requests only");
  add_arrival_flags(flags, options.workload.rate_scale, options.workload.sessions);
  flags.name("--model", options.machine.model,
             "a model by name, or a folder or file of a Hugging Face config (default: the profile's, or " +
                 std::string{default_model} + ")");
  flags.name("--kv-dtype", options.machine.kv_dtype, kv_dtype_help)->default_str(options.machine.kv_dtype);
  flags.name("--device", options.machine.device, "a device by name, or a JSON file (docs/devices.md)")
      ->default_str(options.machine.device);
  flags.whole("--tp", options.machine.tp, 1, 1024,
              "devices that serve the model together, each with a part of every layer (default: 1)");
  app.add_option("--profile", options.machine.profile,
                 "measured times: an OrbitFlow profile (.json) or a folder of kernel times (default: a roofline)");
  flags.whole("--kv-blocks", options.machine.kv_blocks, 1, many,
              "device memory for KV of an engine, in token blocks of 16 tokens (all layers; default: as in "
              "sluice-compare)");
  flags.size("--host-memory", options.machine.host_memory, 0, "the host's memory for offloading, of an engine");
  flags.whole("--batch", options.machine.batch, 1, 1'000'000,
              "most requests in a batch (default: the trace's, 4 for the demo, or 256)");
  flags.whole("--max-batch-tokens", options.machine.batch_tokens, 1, many,
              "most tokens computed in one iteration (default: the trace's, 32768 for the demo, or 2048)");
  flags.numbers("--slo-scale", options.slo_scales, 0, false, "a multiple of the base SLO (default: 1.5)");
  flags.number("--slo-tbt", options.slo_tbt, 0, false,
               "the base SLO, seconds per token (default: a step that fills the budget)");
  flags.number("--slo-ttft", options.slo_ttft, 0, false, "seconds to the first token (default: 5)");
  add_slo_classes(flags, options.slo_classes);
  app.add_option("--deposit", options.deposit, "on or off: token deposit")->capture_default_str();
  add_set_flag(app, options.tuning.set);
  compared::add_seed_flags(flags, options);
  flags.whole("--threads", options.threads, 1, 1024,
              "runs at once; a fleet that runs alone uses all of them (default: one per processor)");
  app.add_flag("--mpi", options.mpi, "each fleet's engines are spread over the ranks that mpirun started");
  flags.folder("--out", options.out, "folder for fleet.html and fleet.json");
  app.add_flag("--json", options.json, "print JSON instead of a table");
  app.add_flag("--list", options.list_names, "print the routers and presets, and stop");
  app.add_flag("--quiet", options.quiet, "show no progress");
  if (const std::optional<int> status = flags.parse(argc, argv)) return *status;
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0) options.given.push_back(option->get_name());
  const std::string command = compared::shell_line({argv + 1, argv + argc});
  if (options.replay.empty()) return run(std::move(options), command);
  if (Status checked = check_replay(options); !checked) return fail(checked.error());
  if (!options.gave("--every")) options.every = 0.001;
  if (!options.gave("--kv-copy")) options.kv_copy = 0.0002;
  return replay_fleet(options, command);
}
