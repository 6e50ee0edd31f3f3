// SPDX-License-Identifier: Apache-2.0
// sluice-profile: the times of a model's layers on a device, Select-N's performance record from them, and measurements
// of this machine.
//
// The problem: how many layers' weights can stream from the host without missing the SLO? That depends on a layer's
// compute time, which depends on batch and length, and on the time its weights take to cross the link. Goals of this
// program: show both times next to each other; evaluate every interval once, before serving, and keep the results in a
// file that engines look up (`sluice-compare --record FILE`); and connect reality with simulation by measuring this
// machine's decoder and link into a folder that `sluice-compare --profile` reads.
#include "sluice/model/device/nlohmann/device_json.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/policy/cost/nlohmann/orbitflow_profile.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/weights/interval_source.hpp"
#include "sluice/policy/weights/nlohmann/interval_record_json.hpp"
#include "sluice/report/number_text.hpp"

#include "profile/measure.hpp"
#include "shared/default_machine.hpp"
#include "shared/flags.hpp"
#include "shared/kv_dtype.hpp"
#include "shared/link_flag.hpp"
#include "shared/progress.hpp"
#include "shared/shipped.hpp"
#include "shared/whole_output.hpp"
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace {

using namespace sluice;

struct Options {
  std::string model{default_model}, device{default_device}, profile, out, show, kv_dtype = "auto";
  std::string backend = "cpu", products = "invariant";
  std::optional<std::uint64_t> random_weights;
  bool record = false, measure = false, quiet = false;
  std::optional<int> threads;
  std::optional<double> seconds, link;
  IntervalGrid grid{.least_length = Tokens{64}};
  double slo_step = 0.002, slo_max = 1;
  std::vector<double> slacks, slos;
  std::string simulated; ///< the first given flag that does not apply to a measurement
};

using Cost = std::variant<Roofline, LinearProfile, TableProfile>;

struct Machine {
  ModelShape model;
  Device device;
  Cost cost;
  std::string times; ///< source of the times
  Geometry geometry;
};

constexpr Tokens block_tokens{16};

Error flag_error(std::string flag, std::string what, std::string expected) {
  return {ErrorCode::bad_input, std::move(flag), std::move(what), std::move(expected)};
}

Expected<Machine> machine_of(const Options& options) {
  const Expected<int> kv_bytes = read_kv_dtype(options.kv_dtype);
  if (!kv_bytes) return kv_bytes.error();
  const Expected<ModelShape> model = find_or_read_model(options.model, *kv_bytes);
  if (!model) return model.error();
  const Expected<Device> device = find_or_read_device(options.device);
  if (!device) return device.error();
  const Geometry geometry{model->layers, model->layer_block_bytes(block_tokens), model->layer_weight_bytes(),
                          model->layer_hidden_bytes(block_tokens)};
  if (options.profile.empty())
    return Machine{*model, *device, Roofline{*model, *device}, "roofline of model and device", geometry};
  const std::string profile = profile_at(options.profile);
  if (std::filesystem::is_directory(profile)) {
    const Expected<ModelShape> measured = read_hf_config(profile);
    if (!measured) return measured.error();
    if (measured->layer_weight_bytes() != model->layer_weight_bytes())
      return flag_error("--profile", options.profile + " was measured with another model than " + model->name,
                        "kernel times of this model (--model " + options.profile + " is its own)");
    Expected<TableProfile> times = read_table_profile(profile, device_link(*device));
    if (!times) return times.error();
    return Machine{*model, *device, *std::move(times), "measured kernels, " + options.profile, geometry};
  }
  Expected<LinearProfile> line =
      read_orbitflow_profile(options.profile, *model, device->compute_rate(RooflineEfficiency{}.compute));
  if (!line) return line.error();
  return Machine{*model, *device, *std::move(line), "linear fits, " + options.profile, geometry};
}

double giga(double count) { return count / 1e9; }

/// A table over the grid's points: batch sizes as rows, lengths as columns.
template <class Cell>
void print_table(const std::string& title, const IntervalGrid& grid, Cell&& cell) {
  fmt::print("\n{}\n{:>7}", title, "batch");
  for (int l = 0; l < grid.lengths(); ++l) fmt::print(" {:>8}", grid.length(l).count());
  fmt::print("\n");
  for (int b = 0; b < grid.batches(); ++b) {
    fmt::print("{:>7}", IntervalGrid::batch(b));
    for (int l = 0; l < grid.lengths(); ++l) fmt::print(" {:>8}", cell(b, l));
    fmt::print("\n");
  }
}

std::string phase_text(InferencePhase phase) {
  return phase == InferencePhase::prefill ? "prefill, by prompt length in tokens"
                                          : "decode, by context length in tokens";
}

/// Prints a layer's compute time and its weights' transfer time.
void print_times(const Machine& machine, const IntervalGrid& grid) {
  const LinkCost link = std::visit([](const auto& cost) { return cost.link(); }, machine.cost);
  const double weights = static_cast<double>(machine.geometry.layer_weight_bytes.count());
  const Seconds transfer = machine.geometry.layer_weight_bytes / link.rate + link.per_layer;
  const Device& device = machine.device;
  fmt::print("{} on {}: {}\n", machine.model.name, device.name, machine.times);
  fmt::print("weights     {} layers of {:.3f} GB; {:.1f} GB with embedding and head, of {:.1f} GB of memory\n",
             machine.model.layers, giga(weights), giga(static_cast<double>(machine.model.weight_bytes().count())),
             giga(static_cast<double>(device.memory.count())));
  fmt::print("KV          {} bytes per token, all layers\n", machine.model.kv_bytes_per_token().count());
  fmt::print(
      "link        {:.1f} GB/s to the device, {} us per layer; {}\n", giga(link.rate.count()),
      short_text(1e6 * link.per_layer.count()),
      link.lanes == Lanes::each_way
          ? fmt::format("{:.1f} GB/s to the host on a lane of its own, each {:.0f} % slower while both are active",
                        giga(link.out_rate.count()), 100 * link.mix_loss)
          : std::string{"one lane for both ways"});
  fmt::print("            a layer's weights cross it in {} ms{}\n", milliseconds_text(transfer.count()),
             link.per_segment > Seconds{0}
                 ? fmt::format(", a copied segment of KV costs {} us", short_text(1e6 * link.per_segment.count()))
                 : std::string{});
  for (const InferencePhase phase : {InferencePhase::prefill, InferencePhase::decode}) {
    RecordedWork work;
    const auto layer = [&](int b, int l) {
      return std::visit(
          [&](const auto& cost) { return cost.step(work.of(phase, IntervalGrid::batch(b), grid.length(l))).layer; },
          machine.cost);
    };
    print_table("A layer's computation, ms: " + phase_text(phase), grid,
                [&](int b, int l) { return milliseconds_text(layer(b, l).count()); });
    print_table("Its weights' transfer over its computation", grid,
                [&](int b, int l) { return short_text(transfer / layer(b, l)); });
  }
}

/// Prints the intervals for each SLO: the paper's Table 1.
void print_intervals(const IntervalRecord& record, const Options& options) {
  const IntervalGrid& grid = record.grid();
  const auto text = [](const IntervalAnswer& answer) {
    return answer.interval > 0 ? std::to_string(answer.interval) : std::string{"-"};
  };
  for (const InferencePhase phase : {InferencePhase::prefill, InferencePhase::decode}) {
    for (const double slack : options.slacks)
      print_table(fmt::format("Smallest interval where the SLO is {:g} % above what the batch takes with nothing "
                              "streamed: {}",
                              100 * slack, phase_text(phase)),
                  grid, [&](int b, int l) {
                    return text(record.look_up(phase, IntervalGrid::batch(b), grid.length(l),
                                               record.at(phase, b, l).resident * (1 + slack)));
                  });
    for (const double slo : options.slos)
      print_table(fmt::format("Smallest interval for an SLO of {:g} s: {}", slo, phase_text(phase)), grid,
                  [&](int b, int l) {
                    return text(record.look_up(phase, IntervalGrid::batch(b), grid.length(l), Seconds{slo}));
                  });
  }
  fmt::print(
      "\n- : no interval of the record meets it, and no weights may stream. SLOs are of an iteration, in steps of "
      "{:g} ms up to {:g} s.\n",
      1e3 * grid.slo_step.count(), grid.slo_step.count() * static_cast<double>(grid.slo_steps));
}

Status make_record(const Machine& machine, const Options& options) {
  std::optional<Progress> bar;
  if (!options.quiet) bar.emplace(1.0);
  const auto tell = [&](std::int64_t done, std::int64_t all) {
    if (bar)
      bar->update(static_cast<double>(done) / static_cast<double>(all), fmt::format("{} of {} points", done, all));
  };
  const IntervalRecord record = std::visit(
      [&](const auto& cost) {
        return record_intervals(cost, machine.geometry,
                                {machine.model.name, machine.device.name, machine.times, 0, Bytes{0}}, options.grid,
                                tell);
      },
      machine.cost);
  bar.reset();
  std::ofstream file(options.out);
  file << interval_record_text(record, made_by().line());
  if (!file.flush()) return flag_error("--out", options.out + " cannot be written", "a writable path");
  fmt::print("{} on {}: {}\n", machine.model.name, machine.device.name, machine.times);
  print_intervals(record, options);
  fmt::print("written to {}\n", options.out);
  return {};
}

/// Measures this machine with its decoder.
Status measure_machine([[maybe_unused]] const Options& options) {
#if defined(SLUICE_HAS_DECODER)
  if (options.out.empty()) return flag_error("--measure", "there is no --out", "a folder to write to");
  if (options.record || !options.show.empty() || !options.profile.empty())
    return flag_error("--measure", "--record, --show or --profile is given as well", "only one of them");
  if (!options.simulated.empty())
    return flag_error(options.simulated, "it does not apply to a measurement", "--measure without it");
  profiled::MeasureOptions measured{.model = options.model, .out = options.out, .quiet = options.quiet};
  if (options.backend != "cpu" && options.backend != "cuda")
    return flag_error("--backend", "it is '" + excerpt(options.backend) + "'", "cpu or cuda");
  measured.cuda = options.backend == "cuda";
  if (measured.cuda && (options.threads || options.link))
    return flag_error(options.threads ? "--threads" : "--link",
                      options.threads ? "with --backend cuda a GPU computes"
                                      : "with --backend cuda the GPU's own link is measured",
                      "one of the two");
  if (options.products != "invariant" && options.products != "fast")
    return flag_error("--products", "it is '" + excerpt(options.products) + "'", "invariant or fast");
  if (options.products == "fast" && !measured.cuda)
    return flag_error("--products", "a processor has only the invariant products", "--backend cuda as well");
  if (options.products == "fast") measured.products = Products::fast;
  measured.random_weights = options.random_weights;
  if (options.threads) measured.threads = *options.threads;
  if (options.seconds) measured.seconds = *options.seconds;
  if (options.link) measured.link = *options.link;
  return profiled::measure(measured);
#else
  return Error{ErrorCode::unsupported, "--measure", "this build has no decoder: Eigen is missing",
               "a build with Eigen 3.4"};
#endif
}

Status run(Options& options) {
  if (options.measure) return measure_machine(options);
  const bool alone = !options.threads && !options.seconds && !options.link && !options.random_weights &&
                     options.backend == "cpu" && options.products == "invariant";
  if (!alone)
    return flag_error("--backend, --products, --random-weights, --threads, --seconds, --link",
                      "they apply only to a measurement", "--measure as well");
  if (!options.show.empty()) {
    const Expected<IntervalRecord> record = read_interval_record(options.show);
    if (!record) return record.error();
    const IntervalRecord::Heading& heading = record->heading();
    fmt::print("{} on {}: {}\n", heading.model, heading.device, heading.times);
    print_intervals(*record, options);
    return {};
  }
  if (options.record && options.out.empty()) return flag_error("--record", "there is no --out", "--out FILE as well");
  if (!options.record && !options.out.empty())
    return flag_error("--out", "nothing is written without --record", "--record as well, or no --out");
  IntervalGrid& grid = options.grid;
  grid.slo_step = Seconds{options.slo_step};
  const double steps = options.slo_max / options.slo_step * (1 + 1e-9);
  if (steps < 1 || steps > 1e6)
    return flag_error("--slo-max",
                      fmt::format("{:g} s are {:.3g} steps of {:g} s", options.slo_max, steps, options.slo_step),
                      "1 to 1000000 steps of --slo-step");
  grid.slo_steps = static_cast<std::int64_t>(steps);
  if (!grid.valid())
    return flag_error(
        "--max-batch, --least-length, --max-length",
        fmt::format("they are {}, {} and {}", grid.max_batch, grid.least_length.count(), grid.max_length.count()),
        "powers of two, the lengths ascending");
  const Expected<Machine> machine = machine_of(options);
  if (!machine) return machine.error();
  if (options.record) return make_record(*machine, options);
  print_times(*machine, grid);
  return {};
}

int program(int argc, char** argv) {
  Options options;
  Flags flags{
      "sluice-profile",
      "Shows the times of a model's layers on a device, from a cost model; with --record, tries every offloading "
      "interval and records the SLOs that it meets; with --measure, measures this machine."};
  CLI::App& app = flags.app();
  constexpr std::int64_t most = std::int64_t{1} << 20;
  app.add_flag("--record", options.record, "make a performance record: the interval for each SLO, batch and length");
  app.add_flag("--measure", options.measure,
               "measure this machine with --model (tiny, a folder with weights, or a name: its shape with random "
               "weights) into the folder --out, for sluice-compare --profile FOLDER --device FOLDER/device.json");
  app.add_option("--backend", options.backend, "for a measurement: cpu, or cuda: the first GPU, in a build with CUDA")
      ->capture_default_str();
  app.add_option("--products", options.products,
                 "for a measurement on a GPU, its matrix products: invariant, or fast (cuBLASLt)")
      ->capture_default_str();
  flags.whole(
      "--random-weights", options.random_weights, 0, std::numeric_limits<std::int64_t>::max(),
      "for a measurement: random weights from this seed; --model is then a name, or a folder with a config.json");
  flags.whole("--threads", options.threads, 1, 1024, "for a measurement: threads that compute (default: 1)");
  flags.number("--seconds", options.seconds, 0, false, "for a measurement: its length in seconds (default: 30)");
  add_link(flags, options.link, "; for a measurement");
  app.add_option("--out", options.out, "the record's file, JSON; for a measurement, a folder");
  app.add_option("--show", options.show, "print the intervals of an existing record");
  app.add_option("--model", options.model, "a model by name, or a folder or file of a Hugging Face config")
      ->capture_default_str();
  flags.name("--kv-dtype", options.kv_dtype, kv_dtype_help)->default_str(options.kv_dtype);
  app.add_option("--device", options.device, "a device by name, or a JSON file")->capture_default_str();
  app.add_option("--profile", options.profile,
                 "measured times: an OrbitFlow profile (.json) or a folder of kernel times (default: a roofline)");
  flags.number("--slo-max", options.slo_max, 0, false, "the longest SLO, seconds (default: 1)");
  flags.number("--slo-step", options.slo_step, 0, false, "step between SLOs, seconds (default: 0.002)");
  flags.whole("--max-batch", options.grid.max_batch, 1, most, "the largest batch, a power of two (default: 128)");
  flags.whole("--least-length", options.grid.least_length, 1, most,
              "the shortest length, a power of two (default: 64)");
  flags.whole("--max-length", options.grid.max_length, 1, most, "the longest length, a power of two (default: 4096)");
  flags.numbers("--slack", options.slacks, 0, true,
                "print intervals for SLOs this share above each batch's own time, e.g. 0.2,0.5 (default: 0.5)");
  flags.numbers("--slo", options.slos, 0, false, "print intervals for these SLOs, seconds");
  app.add_flag("--quiet", options.quiet, "show no progress");
  if (const std::optional<int> status = flags.parse(argc, argv)) return *status;
  for (const char* flag : {"--device", "--kv-dtype", "--slo-max", "--slo-step", "--max-batch", "--least-length",
                           "--max-length", "--slack", "--slo"})
    if (options.simulated.empty() && app.count(flag) > 0) options.simulated = flag;
  if (options.measure && app.count("--model") == 0)
    options.model = "tiny"; // the default is too large to compute on a processor
  if (options.slacks.empty() && options.slos.empty()) options.slacks = {0.5};
  if (const Status status = run(options); !status) {
    std::fprintf(stderr, "sluice-profile: %s\n", status.error().line().c_str());
    return 2;
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return with_whole_output("sluice-profile", [&] { return program(argc, argv); });
}
