// SPDX-License-Identifier: Apache-2.0
// One run: model, memory, machine, engine; then the files.
#include "run/serve.hpp"

#include "sluice/report/observer/trace_json.hpp"
#include "sluice/report/unfinished_file.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/read_clock_record.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/recorded.hpp"
#include "sluice/world/replayed.hpp"

#include "run/computer.hpp"
#include "run/costs.hpp"
#include "run/engine_setup.hpp"
#include "run/interruptible.hpp"
#include "run/logits.hpp"
#include "run/model.hpp"
#include "run/outputs.hpp"
#include "run/promises.hpp"
#include "run/refusals.hpp"
#include "run/resident.hpp"
#include "run/shown.hpp"
#include "run/tables.hpp"
#include "run/tiers.hpp"
#include "shared/interrupt.hpp"
#include "shared/progress.hpp"
#include "shared/sizes.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace running {

using namespace sluice;

namespace {

/// The requested files: unnamed until the run is over, but opened before it begins, which proves that they are
/// writable.
struct Files {
  std::optional<LogitsFile> logits;
  std::optional<UnfinishedFile> timeline, decisions, clock;

  static Expected<Files> open(const Options& options, int vocabulary) {
    Files files;
    if (!options.logits.empty()) {
      Expected<LogitsFile> file = LogitsFile::create(options.logits, vocabulary);
      if (!file) return of_flag("--logits", file.error());
      files.logits = std::move(*file);
    }
    if (Status status = open("--timeline", options.timeline, files.timeline); !status) return status.error();
    if (Status status = open("--decisions", options.decisions, files.decisions); !status) return status.error();
    if (Status status = open("--record-clock", options.record_clock, files.clock); !status) return status.error();
    return files;
  }
  static Status open(const char* flag, const std::string& path, std::optional<UnfinishedFile>& place) {
    if (path.empty()) return {};
    Expected<UnfinishedFile> file = UnfinishedFile::create(path);
    if (!file) return of_flag(flag, file.error());
    place = std::move(*file);
    return {};
  }
  static Error of_flag(const char* flag, Error error) {
    error.where = std::string{flag} + ": " + error.where;
    return error;
  }
  static Status write(std::optional<UnfinishedFile>& file, const std::string& text) {
    if (!file) return {};
    if (Status status = file->write(0, std::as_bytes(std::span<const char>(text))); !status) return status;
    return file->finish();
  }
};

/// The workload as an engine takes it; each request's tokens go to the machine.
class Requests final : public Arrivals {
 public:
  /// `machine`: null if nothing is computed.
  Requests(const Options& options, const Workload& workload, Results& results, TokenWorld* machine, ShownText* shown)
      : options_(options), workload_(workload), results_(results), machine_(machine), shown_(shown) {}

  /// An engine's loop calls this between two steps: if the program is interrupted, the run ends here.
  [[nodiscard]] std::optional<Seconds> next_arrival() const override {
    drop_if_interrupted();
    if (next_ == workload_.requests.size()) return std::nullopt;
    return workload_.requests[next_].arrival;
  }
  [[nodiscard]] RequestSpec take() override {
    const std::size_t request = next_++;
    if (machine_ != nullptr) {
      entry_ = {};
      entry_.tokens = workload_.prompt(request);
      entry_.sampling = options_.sampling;
      entry_.sequence = request;
      entry_.ends = !options_.ignore_end && !options_.from_trace();
      on_host_ = machine_->find(entry_);
    }
    return workload_.requests[request];
  }
  [[nodiscard]] Tokens on_host() const override { return on_host_; }
  void submitted(const Expected<RequestId>& id) override {
    const std::size_t request = next_ - 1;
    if (!id) {
      results_.requests[request].reason =
          id.error().what + (id.error().expected.empty() ? "" : "; expected " + id.error().expected);
      return;
    }
    SLUICE_ASSERT(index(*id) == request, "ids count submissions");
    if (machine_ == nullptr) return;
    if (shown_ != nullptr) shown_->begins(request, entry_.tokens);
    machine_->enter(*id, std::move(entry_));
  }

 private:
  const Options& options_;
  const Workload& workload_;
  Results& results_;
  TokenWorld* machine_;
  ShownText* shown_;
  std::size_t next_ = 0;
  TokenRequest entry_; ///< the last one taken
  Tokens on_host_{0};
};

void tell_machine(const Options& options, const std::string& costs, const std::string& gathered,
                  const LocalMemory& memory, const std::string& kept) {
  fmt::print(stderr, "planners use: {}\n", without_controls(costs));
  fmt::print(stderr, "link {}, {}\n", options.link > 0 ? short_text(options.link / 1e9) + " GB/s" : "unlimited",
             options.lanes);
  if (!gathered.empty()) fmt::print(stderr, "{}\n", gathered);
  fmt::print(stderr, "device {}: weights {}, buffers {}, KV {} layer blocks of {} bytes; host {} layer blocks\n",
             exact_bytes(memory.device.count()), memory.weights.count(), memory.buffers.count(), memory.kv.count(),
             memory.block.count(), memory.host.count());
  if (!kept.empty()) fmt::print(stderr, "{}\n", kept);
}

void tell_learned(const Learned& learned) {
  fmt::print(stderr,
             "planners have learned from {} iterations: a layer takes {} times the first estimate, and an "
             "iteration {} {} outside its layers\n",
             learned.iterations, short_text(learned.layers), time_text(std::abs(learned.besides.count())),
             learned.besides < Seconds{0} ? "less" : "more");
}

void tell_tier(const HostTierCounts& tier) {
  fmt::print(stderr,
             "host tier: {} of {} tokens of prompts found, {} of them on the disk; {} loaded; {} of {} token blocks "
             "used\n",
             tier.found, tier.asked, tier.from_disk, tier.loaded, tier.blocks, tier.capacity);
  if (tier.refused > 0)
    fmt::print(stderr, "host tier: {} token blocks of ended requests found no room\n", tier.refused);
}

void tell_graphs(const GraphCounts& graphs) {
  fmt::print(stderr, "sequences of launches: {} replayed by {} graphs, {} launched kernel by kernel\n", graphs.replayed,
             graphs.made, graphs.launched);
  if (!graphs.refused.empty()) fmt::print(stderr, "no more graphs: {}\n", without_controls(graphs.refused));
}

/// The error of a replay that differs from its record.
Error parted(const Replay& replay, const Options& options) {
  if (replay.status().ok())
    return flag_error("--replay-clock", options.replay_clock + " goes on after the last request",
                      "the flags and requests of the run that it records");
  Error error = replay.status().error();
  error.where = "--replay-clock: " + error.where;
  return error;
}

MachineSetup machine_setup(const Options& options, std::int64_t max_context) {
  MachineSetup setup;
  setup.limits.batch = options.batch;
  setup.limits.batch_tokens = Tokens{options.batch_tokens};
  setup.limits.max_context = Tokens{max_context};
  setup.link = {options.link, options.link, options.lanes == "each-way"};
  setup.products = products_of(options);
  setup.graphs = !options.no_graphs;
  setup.skips_idle = options.no_wait;
  return setup;
}

/// What the machine counted during the run.
void take_figures(const TokenWorld& machine, const LocalMemory& memory, Results& results) {
  results.moved = machine.moved();
  results.graphs = machine.graphs();
  results.device_peak = machine.device_memory().peak();
  results.host_peak = memory.block * machine.host_peak().count();
}

/// Shows why each request that was not served to its end was not.
void show_unserved(ShownText& shown, const Results& results) {
  for (std::size_t i = 0; i < results.requests.size(); ++i) {
    const Result& one = results.requests[i];
    if (!one.done) shown.ended(i, one.unfinished ? "interrupted" : "refused: " + one.reason);
  }
}

/// The flags that determine a run's weights, in the form that its backend takes. None: text needs a tokenizer as well,
/// which belongs to its run.
std::string weights_of(const Options& options) {
  if (!options.prompts.empty()) return "text";
  const std::string seed = options.random_weights ? std::to_string(*options.random_weights) : "none";
  return options.backend + " " + seed + " " + options.model;
}

/// Writes the files that were opened before the run. Errors: one of them cannot be written.
Status write_files(Files& files, const Recorded& recorded, const ClockRecord& clock, const Options& options) {
  if (files.logits)
    if (Status status = files.logits->finish(); !status) return Files::of_flag("--logits", status.error());
  if (files.timeline) {
    const std::string trace = trace_json(recorded.timeline, options.system, made_by().line());
    if (Status status = Files::write(files.timeline, trace); !status) return status;
  }
  if (Status status = Files::write(files.decisions, recorded.decisions.text()); !status) return status;
  return Files::write(files.clock, clock.text());
}

} // namespace

Expected<Served> serve(const Options& options, KeptWeights* kept) {
  const Expected<const engines::System*> system = find_system(options.system);
  if (!system) return system.error();
  if (Status status = check_host_attends(**system, options); !status) return status.error();
  Expected<std::vector<engines::NumberSetting>> numbers = engines::read_settings(options.set, {*system, 1});
  if (!numbers) return numbers.error();
  const std::string of = weights_of(options);
  const bool again = kept != nullptr && kept->of == of, replays = !options.replay_clock.empty();
  if (kept != nullptr && !again) *kept = {}; // before memory is taken for others
  Expected<Computer> computer = again && !replays ? Computer::open(options, replays, std::exchange(kept->gpu, {}))
                                                  : Computer::open(options, replays);
  if (!computer) return computer.error(); // first: without a GPU no model is read
  Expected<LocalModel> model = again ? LocalModel{options.model, kept->weights, nullptr}
                                     : open_model(options.model, !options.prompts.empty(), options.random_weights);
  if (!model) return model.error();
  Served served{std::move(*model), {}, {}, {}, {}, false};
  const ModelWeights& weights = served.model.weights;
  const ModelShape shape = weights.config.shape;
  if (Status status = check_outputs(options, {}, Tables::files_of(options)); !status) return status.error();
  Expected<Files> files = Files::open(options, shape.vocabulary);
  if (!files) return files.error();
  Expected<std::unique_ptr<Tables>> tables = Tables::open(options);
  if (!tables) return tables.error();
  if (!options.from_trace()) {
    Expected<Workload> prompts = read_prompts(options, served.model);
    if (!prompts) return prompts.error();
    served.workload = std::move(*prompts);
  }

  MachineSetup setup = machine_setup(options, weights.config.max_positions);
  if (Status status = check_threads(options.threads, (*system)->host_attends); !status) return status.error();
  if (Status status = computer->take(served.model.weights, setup, again); !status) return status.error();
  if (kept != nullptr && options.prompts.empty() && !replays) *kept = {of, served.model.weights, {}};
  Expected<Costs> costs = costs_of(options, weights.config.shape, setup.link,
                                   [&] { return computer->rates(setup, (*system)->host_attends); });
  if (!costs) return costs.error();
  if (Status status = check_host_rate(**system, options, costs->device); !status) return status.error();
  if (kept != nullptr && kept->of == of && !replays) kept->gpu = computer->gpu(); // the next run checks it for errors
  if (options.from_trace()) {
    Expected<Workload> trace = read_trace(options, served.model, costs->cost);
    if (!trace) return trace.error();
    served.workload = std::move(*trace);
  }
  const Workload& workload = served.workload;
  rebuild(setup, **system, shape,
          longest_batch(workload.requests, setup.limits.block_tokens, 1, static_cast<std::size_t>(options.batch)));
  const KvKeeping kv = keep_kv(options, **system, weights, setup);
  const LocalMemory memory = divide_memory(computer->needs(setup), shape.layers, workload.requests,
                                           wanted_memory(options), setup, kv.blocks());
  if (options.replay_clock.empty() && options.backend == "cpu")
    if (Status status = check_address_space(options, memory); !status) return status.error();
  if (Status status = add_tiers(options, weights, memory, setup); !status) return status.error();
  if (options.verbose) tell_machine(options, costs->text, computer->gathered(), memory, kv.text);
  engines::Setup engine = engine_setup(options, setup, weights, workload.requests, memory, *costs, kv);
  engine.numbers = *std::move(numbers);
  engine.calibrates = options.calibrates();

  Results& results = served.results;
  results.requests.resize(workload.requests.size());
  results.weights = memory.weights;
  results.device_memory = memory.device;
  std::optional<ShownText> shown;
  if (!options.json && !options.from_trace() && options.replay_clock.empty())
    shown.emplace(workload.requests.size(), options.prompts.empty() ? nullptr : served.model.tokenizer.get(), stdout);
  std::int64_t to_generate = 0;
  for (const RequestSpec& request : workload.requests) to_generate += request.output.count();
  Progress progress(static_cast<double>(to_generate), stderr,
                    options.from_trace() && isatty(STDERR_FILENO) == 1 ? Progress::Style::bar
                                                                       : Progress::Style::silent);
  std::int64_t generated = 0;

  TokenListener listener;
  if (files->logits)
    listener.logits = [&](RequestId id, std::int64_t, std::span<const float> row) {
      files->logits->add(index(id), row);
    };
  Recorded recorded;
  recorded.keeps_timeline = files->timeline.has_value();
  recorded.trace = Timeline::of(options.trace_at);
  recorded.keeps_decisions = files->decisions.has_value();
  recorded.feed = tables->get();
  recorded.refused = [&](RequestId id, std::string_view reason) { results.requests[index(id)].reason = reason; };

  std::optional<Replay> replay;
  if (!options.replay_clock.empty()) {
    Expected<ClockRecord> record = read_clock_record(LineReader::open(options.replay_clock));
    if (!record) return Files::of_flag("--replay-clock", record.error());
    replay.emplace(*std::move(record));
  }
  ClockRecord clock;
  Status ran;
  std::shared_ptr<TokenWorld> machine;
  std::shared_ptr<BackendWorld> world;
  if (replay) {
    world = world_of(Replayed<RealBackend>{*replay});
  } else if (auto made = computer->make_machine(setup, std::move(listener))) {
    machine = *std::move(made);
    const Interruptible backend{machine};
    world = files->clock ? world_of(sluice::Recorded{backend, clock}) : world_of(backend);
  } else {
    ran = made.error();
  }
  if (world) {
    recorded.released = [&](RequestId id, Tokens first, Tokens count) {
      if (!machine) return; // nothing is computed
      for (const std::int32_t token : machine->generated(id, first, count)) {
        results.requests[index(id)].tokens.push_back(token);
        if (shown) shown->token(index(id), token);
        progress.update(static_cast<double>(++generated), options.system);
      }
    };
    recorded.ended = [&](RequestId id) {
      results.requests[index(id)].done = true;
      if (machine) machine->forget(id);
      if (shown) shown->ended(index(id));
    };
    recorded.cancelled = [&](RequestId id) { results.requests[index(id)].reason = "its user left"; };
    Requests requests(options, workload, results, machine.get(), shown ? &*shown : nullptr);
    Job job{engine, {Seconds{options.slo_ttft}, Seconds{options.slo_tbt}}, world, requests, recorded};
    if (replay) job.replay = &*replay;
    heed_interrupts();
    try {
      ran = run(**system, job);
    } catch (const Dropped&) {
      served.interrupted = true;
      recorded.end = world->now();
    }
  }
  if (options.verbose && options.calibrates()) tell_learned(recorded.learned);
  if (machine) take_figures(*machine, memory, results);
  if (options.verbose && results.graphs) tell_graphs(*results.graphs);
  if (options.verbose && machine && options.host_cache > 0) tell_tier(machine->host_tier());
  results.peak_resident = peak_resident();
  progress.finish(served.interrupted ? "interrupted after" : "done in");
  results.summary = std::move(recorded.summary);
  results.end = recorded.end;
  if (served.interrupted) {
    for (Result& one : results.requests) one.unfinished = !one.done && one.reason.empty();
    if (shown) show_unserved(*shown, results);
    return served;
  }
  served.nothing = Refusals(options, **system, engine, memory).explain(workload, ran, results);
  if (served.nothing) return served;
  if (shown) show_unserved(*shown, results);

  const bool parts = replay && !replay->finished(); // the decisions that led to it are still written
  Status written = write_files(*files, recorded, clock, options);
  if (written && *tables && !parts)
    written = (*tables)->finish({options, **system, shape, workload, *costs, memory, results, ran});
  if (!written) served.unwritten = written.error();
  if (parts) return served.unwritten ? *served.unwritten : parted(*replay, options);
  return served;
}

} // namespace running
