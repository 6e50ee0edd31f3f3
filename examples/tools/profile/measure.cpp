// SPDX-License-Identifier: Apache-2.0
// sluice-profile --measure: times the decoder's calls by size, then the rest of whole iterations.
#include "profile/measure.hpp"

#include "sluice/core/stopwatch.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/local/memory.hpp"

#include "profile/bundle.hpp"
#include "profile/link.hpp"
#include "profile/spread.hpp"
#include "profile/subject.hpp"
#include "profile/unequal.hpp"
#include "shared/progress.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace profiled {

using namespace sluice;

namespace {

namespace fs = std::filesystem;

/// The mean of the middle half. Rare disturbances do not count; if the machine alternates between a fast and a slow
/// state, both count (a median was rejected: it would show one of the two by chance).
double typical(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t cut = values.size() / 4;
  double sum = 0;
  for (std::size_t i = cut; i < values.size() - cut; ++i) sum += values[i];
  return sum / static_cast<double>(values.size() - 2 * cut);
}

/// One row of the tables, with its repeated timings.
struct Point {
  TimedBatch batch;
  bool needed = false; ///< the tables are incomplete without it
  std::vector<BatchTimes> times;

  template <class Part>
  [[nodiscard]] double seconds(Part part) const {
    std::vector<double> all;
    for (const BatchTimes& one : times) all.push_back((one.*part).count());
    return typical(std::move(all));
  }
};

/// The points to measure, the most needed first.
std::vector<Point> points(const BatchTimer& timer, const Grid& grid) {
  std::vector<Point> all;
  const auto add = [&](const TimedBatch& batch, bool needed) {
    if (timer.fits(batch)) all.push_back({batch, needed, {}});
  };
  const auto up_to = [](int most) {
    std::vector<int> counts;
    for (const int count : {1, 2, 4, 8, 16, 32, 64})
      if (count <= most) counts.push_back(count);
    return counts;
  };
  std::vector<TimedBatch> chunks, decodes;
  for (const bool needed : {true, false}) {
    for (const int rows : {1,  2,  3,  4,  5,   6,   7,   8,   10,  12,  14,   16,   20,  24,
                           32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048}) {
      if (rows > grid.most_rows || needed != (rows == 1 || rows == 4 || rows == grid.most_decodes || rows == 64))
        continue;
      if (rows <= grid.most_decodes)
        add({.decodes = rows, .attends = false}, needed);
      else
        add({.chunk = rows, .attends = false}, needed);
    }
    for (const int count : up_to(grid.most_decodes))
      for (const int context : grid.contexts)
        if (needed == ((count == 1 || count == grid.most_decodes) &&
                       (context == grid.contexts.front() || context == grid.contexts.back()))) {
          decodes.push_back({.decodes = count, .context = context});
          add(decodes.back(), needed);
        }
    for (const int chunk : grid.chunks)
      for (const int past : grid.pasts)
        if (needed == (chunk <= 64 && (past == grid.pasts.front() || past == grid.pasts[grid.pasts.size() / 2]))) {
          chunks.push_back({.chunk = chunk, .past = past});
          add(chunks.back(), needed);
        }
  }
  for (const int stored : grid.chunks) // two are needed for a line
    add({.decodes = 1, .attends = false, .stored = stored},
        stored == grid.chunks.front() || stored == grid.chunks.back());
  for (const TimedBatch& unequal : unequal_batches(grid.most_decodes, grid.contexts)) {
    add(equal_batch(unequal, mean_context(unequal)), false);
    add(unequal, false);
  }
  if (grid.mixes)
    for (const TimedBatch& chunk : chunks)
      for (const TimedBatch& beside : decodes)
        add({chunk.chunk, chunk.past, beside.decodes, beside.context, true}, false);
  return all;
}

/// The bundle's three tables as text.
struct Tables {
  std::string dense, per_sequence, attention;
  std::string skew; ///< of unequal decodes; empty: not measured

  [[nodiscard]] Expected<TableProfile> read(LinkCost link) const {
    const auto lines = [](const std::string& text, const char* name) {
      return Expected<LineReader>{LineReader{std::make_unique<std::istringstream>(text), name}};
    };
    return read_table_profile(lines(dense, "dense.csv"), lines(per_sequence, "per_sequence.csv"),
                              lines(attention, "attention.csv"), link);
  }
};

/// Microseconds in the tables' format: above 0.
std::string micro(double seconds) { return fmt::format("{:.6g}", std::max(1e-3, 1e6 * seconds)); }

Tables tables_of(const std::vector<Point>& measured, const Grid& grid) {
  Tables tables{"layer,tokens,time_us\n", "layer,sequences,time_us\n",
                "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n", ""};
  std::map<int, const Point*> rows;
  for (const Point& point : measured)
    if (!point.batch.attends && point.batch.stored == 0 && !point.times.empty()) rows[point.batch.rows()] = &point;
  std::vector<MeasuredLine::Point> line;
  for (const auto& [count, point] : rows) {
    line.push_back({count, point->seconds(&BatchTimes::layer)});
    tables.dense += fmt::format("whole_layer,{},{}\n", count, micro(line.back().seconds));
  }
  for (const auto& [count, point] : rows)
    tables.dense += fmt::format("embedding,{},{}\n", count, micro(point->seconds(&BatchTimes::begin)));
  for (const auto& [name, part] : {std::pair{"lm_head", &BatchTimes::head}, std::pair{"sampler", &BatchTimes::sampler}})
    for (const auto& [count, point] : rows)
      if (count <= grid.most_decodes)
        tables.per_sequence += fmt::format("{},{},{}\n", name, count, micro(point->seconds(part)));
  // A layer's attention time is its time with attention minus its time without. If a chunk beside decodes was not
  // measured, their times are added, which is right when sequences are computed one by one.
  const MeasuredLine without{std::move(line)};
  for (const Point& point : measured) // ascending
    if (point.batch.stored > 0 && !point.times.empty())
      tables.dense += fmt::format("kv_proj,{},{}\n", point.batch.stored,
                                  micro(point.seconds(&BatchTimes::layer) - without.at(point.batch.rows())));
  std::vector<std::pair<TimedBatch, double>> chunks, decodes;
  std::map<std::array<int, 4>, double> mixes;
  tables.skew = skew_csv(unequal_batches(grid.most_decodes, grid.contexts),
                         [&](const TimedBatch& batch) -> std::optional<double> {
                           for (const Point& point : measured)
                             if (point.batch == batch && !point.times.empty()) return point.seconds(&BatchTimes::layer);
                           return std::nullopt;
                         });
  for (const Point& point : measured) {
    const TimedBatch& batch = point.batch;
    if (!batch.attends || point.times.empty()) continue;
    const bool of_grid = batch.decodes == 0 ||
                         std::find(grid.contexts.begin(), grid.contexts.end(), batch.context) != grid.contexts.end();
    if (batch.longest > 0 || !of_grid) continue; // for skew.csv
    const double seconds = std::max(0.0, point.seconds(&BatchTimes::layer) - without.at(batch.rows()));
    if (batch.chunk > 0 && batch.decodes > 0)
      mixes[{batch.chunk, batch.past, batch.decodes, batch.context}] = seconds;
    else
      (batch.chunk > 0 ? chunks : decodes).emplace_back(batch, seconds);
  }
  const auto row = [&](const TimedBatch& chunk, const TimedBatch& beside, double seconds) {
    tables.attention +=
        fmt::format("{},{},{},{},{}\n", chunk.chunk, chunk.past, beside.decodes, beside.context, micro(seconds));
  };
  for (const auto& [beside, seconds] : decodes) row({}, beside, seconds);
  for (const auto& [chunk, alone] : chunks) {
    row(chunk, {}, alone);
    for (const auto& [beside, seconds] : decodes) {
      const auto both = mixes.find({chunk.chunk, chunk.past, beside.decodes, beside.context});
      row(chunk, beside, both == mixes.end() ? alone + seconds : both->second);
    }
  }
  return tables;
}

/// A decode iteration that ran.
struct Ran {
  std::int64_t decodes = 0;
  Tokens context{0};
  double seconds = 0;
};

/// The machine, with a record of its iterations that only decode. (With a chunk of a prompt, the noise of kernel times
/// is larger than the iteration's overhead.)
struct Noting : Cpu {
  std::vector<Ran>* ran = nullptr;

  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    const IterationCost cost = Cpu::wait<Transfer>(iteration, state);
    if (iteration.work.chunks.empty())
      ran->push_back({iteration.work.decodes, iteration.work.decode_context, (cost.duration - cost.stall).count()});
    return cost;
  }
};

/// Whole iterations of an engine with nothing offloaded.
class Iterations {
 public:
  static Expected<Iterations> make(Subject& subject) {
    const ModelWeights& weights = subject.weights();
    const ModelShape& shape = weights.config.shape;
    const Grid grid = subject.grid();
    MachineSetup setup;
    setup.limits.batch = grid.most_decodes;
    setup.limits.batch_tokens = Tokens{grid.most_rows};
    setup.limits.max_context = Tokens{weights.config.max_positions};
    const LayerBlocks kv =
        across_layers(blocks_for(Tokens{prompt + output}, block_tokens) * grid.most_decodes, shape.layers);
    Expected<std::shared_ptr<TokenWorld>> machine = subject.make_machine(setup, kv);
    if (!machine) return machine.error();
    Iterations all;
    all.machine_ = *machine;
    Noting backend{Cpu{*machine}};
    backend.ran = all.ran_.get();
    Geometry geometry = local_geometry(weights, block_tokens);
    geometry.layer_block_bytes = Bytes{kv_block_floats(shape, block_tokens) * subject.kv_element_bytes()};
    Expected<E> engine = E::make({.limits = setup.limits,
                                  .geometry = geometry,
                                  .device_blocks = kv,
                                  .host_blocks = LayerBlocks{0},
                                  .cost = Roofline{shape, a10()}, // all KV fits, so nothing depends on the cost model
                                  .backend = backend});
    if (!engine) return engine.error();
    all.engine_ = std::make_unique<E>(std::move(*engine));
    return all;
  }

  /// Serves a batch of requests from their first token to their last.
  Status serve(int count) {
    for (int i = 0; i < count; ++i) {
      RequestSpec spec;
      spec.arrival = engine_->now();
      spec.prompt = Tokens{prompt};
      spec.output = Tokens{output};
      const Expected<RequestId> id = engine_->submit(spec);
      if (!id) return id.error();
      TokenRequest request;
      request.tokens.assign(static_cast<std::size_t>(prompt), 0);
      request.ends = false;
      machine_->enter(*id, std::move(request));
    }
    while (engine_->step() == Stepped::ran) {
    }
    return engine_->status();
  }
  [[nodiscard]] const std::vector<Ran>& ran() const { return *ran_; }

 private:
  using E = With<Engine<>, Noting, Roofline>;
  static constexpr std::int64_t prompt = 8, output = 24;

  std::unique_ptr<std::vector<Ran>> ran_ = std::make_unique<std::vector<Ran>>();
  std::shared_ptr<TokenWorld> machine_;
  std::unique_ptr<E> engine_;
};

/// The spread of a layer's repeated timings, for the batch with the median spread: the smallest batches take so little
/// time that theirs always spread.
double spread_of(const std::vector<Point>& points) {
  std::vector<double> all;
  for (const Point& point : points) {
    std::vector<double> layers;
    for (const BatchTimes& one : point.times) layers.push_back(one.layer.count());
    if (layers.size() > 1) all.push_back(spread(std::move(layers)));
  }
  if (all.empty()) return 0;
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

/// Measures every point in turn and then whole iterations, round after round, so that other load and changes of clock
/// rate affect all of them alike. Repeats often enough, and for all of `seconds` if the timings spread.
Expected<std::vector<Point>> measure_points(Subject& subject, Iterations& iterations, double seconds, Progress* bar) {
  constexpr int enough_rounds = 25;
  BatchTimer& timer = subject.timer();
  const int most_decodes = subject.grid().most_decodes;
  std::vector<Point> all = points(timer, subject.grid());
  const Stopwatch clock;
  const auto spent = [&] { return clock.elapsed().count() / seconds; };
  const auto tell = [&](const std::string& what) {
    if (bar != nullptr) bar->update(std::min(1.0, spent()), what);
  };
  (void)timer.time(all.front().batch); // the first call grows buffers
  const auto enough = [&](int round) { return round >= enough_rounds && spread_of(all) <= most_spread; };
  for (int round = 0; round == 0 || (spent() < 1 && !enough(round)); ++round) {
    for (Point& point : all) {
      if (spent() >= (round == 0 ? 0.7 : 1.0) && (round > 0 || !point.needed)) continue;
      if (round > 0 && point.times.empty()) continue;
      point.times.push_back(timer.time(point.batch));
      tell(fmt::format("round {}: {} + {} rows", round + 1, point.batch.chunk, point.batch.decodes));
    }
    for (const int count : {1, 2, 4, 8, 16, 32, 64}) {
      if (count > most_decodes || (round > 0 && spent() >= 1)) break;
      if (Status status = iterations.serve(count); !status) return status.error();
      tell(fmt::format("round {}: iterations of {} requests", round + 1, count));
    }
  }
  return all;
}

/// Adds the time of iterations beyond their kernels, by their tokens, as a separate kernel.
Status add_iterations(const std::vector<Ran>& ran, int layers, int most_rows, Tables& tables) {
  const Expected<TableProfile> profile = tables.read({.rate = BytesPerSecond{1e9}});
  if (!profile) return profile.error();
  std::map<std::int64_t, std::vector<double>> by_tokens;
  for (const Ran& one : ran) {
    Work work;
    work.decodes = work.samples = one.decodes;
    work.decode_context = one.context;
    by_tokens[one.decodes].push_back(one.seconds - profile->step(work).total(layers).count());
  }
  double last = 0;
  for (auto& [tokens, beyond] : by_tokens) {
    last = typical(std::move(beyond));
    tables.dense += fmt::format("iteration,{},{}\n", tokens, micro(last));
  }
  // Tables are extrapolated along their last line, but more rows of the same sequences add no bookkeeping.
  if (by_tokens.rbegin()->first < most_rows) tables.dense += fmt::format("iteration,{},{}\n", most_rows, micro(last));
  return {};
}

/// How undisturbed a measurement was.
struct Quiet {
  double decoder = 0, link = 0; ///< spreads
  double processor = 1;         ///< processor time / elapsed time while the decoder was timed; 1 for a GPU
};

/// Prints one line that warns about a disturbed measurement. The files are written anyway: a better measurement may be
/// impossible.
void warn_if_busy(const Quiet& quiet, bool computes_here) {
  constexpr double least_processor = 1 / (1 + most_spread);
  if (std::max(quiet.decoder, quiet.link) <= most_spread && quiet.processor >= least_processor) return;
  const std::string spreads =
      fmt::format("sluice-profile: this machine was busy: repeated timings spread by {:.0f} % ({}) and {:.0f} % (link)",
                  100 * quiet.decoder, computes_here ? "decoder" : "GPU", 100 * quiet.link);
  if (computes_here)
    fmt::print(
        stderr,
        "{}, and the decoder had a processor {:.0f} % of the time; expected at most {:.0f} %, and at least {:.0f} "
        "%: a machine that does nothing else, or more --seconds\n",
        spreads, 100 * std::min(1.0, quiet.processor), 100 * most_spread, 100 * least_processor);
  else
    fmt::print(stderr, "{}; expected at most {:.0f} %: a GPU and a host that do nothing else, or more --seconds\n",
               spreads, 100 * most_spread);
}

} // namespace

nlohmann::json config_of(const ModelShape& shape) {
  nlohmann::json config{{"model_type", "llama"},
                        {"num_hidden_layers", shape.layers},
                        {"hidden_size", shape.hidden},
                        {"num_attention_heads", shape.heads},
                        {"num_key_value_heads", shape.kv_heads},
                        {"head_dim", shape.head_dim},
                        {"intermediate_size", shape.mlp},
                        {"vocab_size", shape.vocabulary},
                        {"tie_word_embeddings", shape.tied_embeddings}};
  if (!shape.gated_mlp) {
    config["model_type"] = "opt";
    config["ffn_dim"] = shape.mlp;
  } else if (shape.experts > 0) {
    config["model_type"] = "qwen3_moe"; // as for Mixtral, with a separate size of experts
    config["num_experts"] = shape.experts;
    config["num_experts_per_tok"] = shape.experts_per_token;
    config["moe_intermediate_size"] = shape.moe_intermediate;
  }
  return config;
}

Status measure(const MeasureOptions& options, Subject& subject, const nlohmann::json& model_config, Bundle& bundle) {
  const ModelWeights& weights = subject.weights();
  const ModelShape& shape = weights.config.shape;
  const Grid grid = subject.grid();
  std::optional<Progress> bar;
  if (!options.quiet) bar.emplace(1.0);
  Tables tables;
  std::size_t count = 0, rounds = 0;
  Quiet quiet;
  constexpr double of_link = 0.05; // share of the time that goes to the link
  {
    Expected<Iterations> iterations = Iterations::make(subject);
    if (!iterations) return iterations.error();
    const Stopwatch wall;
    const std::clock_t processor = std::clock();
    const Expected<std::vector<Point>> measured =
        measure_points(subject, *iterations, (1 - of_link) * options.seconds, bar ? &*bar : nullptr);
    if (!measured) return measured.error();
    // Each batch may have been timed only once, so spread shows nothing; but a computing thread needs a processor.
    if (subject.computes_here())
      quiet.processor = static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC / wall.elapsed().count();
    for (const Point& point : *measured) {
      if (!point.times.empty()) ++count;
      rounds = std::max(rounds, point.times.size());
    }
    quiet.decoder = spread_of(*measured);
    tables = tables_of(*measured, grid);
    if (Status status = add_iterations(iterations->ran(), shape.layers, grid.most_rows, tables); !status) return status;
  }
  const std::int64_t block = kv_block_floats(shape, block_tokens) * subject.kv_element_bytes();
  const Expected<LinkTimes> measured_link = subject.link(block, of_link * options.seconds);
  if (!measured_link) return measured_link.error();
  const LinkTimes& link = *measured_link;
  const HostAttentionRate host = subject.host_attention();
  bar.reset();
  if (Status status = subject.status(); !status) return status;
  const Expected<TableProfile> profile = tables.read({.rate = link.rate});
  if (!profile) return profile.error();

  Work one, many;
  one.decodes = one.samples = 1;
  one.decode_context = Tokens{16};
  const std::vector<ChunkWork> chunk{{.fresh = Tokens{grid.most_rows}, .cached = Tokens{0}}};
  many.chunks = chunk;
  const double layer_bytes = static_cast<double>(weights.layout.bytes.count());
  nlohmann::json device{
      {"name", subject.name()},
      {"memory_bytes", subject.memory().count()},
      {"host_memory_bytes", physical_memory().count() / 2},
      {"memory_bytes_per_s", layer_bytes / profile->step(one).layer.count()},
      {"half_precision_flops_per_s",
       grid.most_rows * shape.linear_flops_per_token_per_layer().count() / profile->step(many).layer.count()},
      {"compute_fraction", 1},
      {"bandwidth_fraction", 1},
      {"host_to_device_bytes_per_s", link.rate.count()},
      {"device_to_host_bytes_per_s", link.out_rate.count()},
      {"lanes", link.each_way ? "each-way" : "shared"},
      {"mix_loss", link.mix_loss},
      {"segment_s", link.per_copy.count()},
      {"copies", link.batched ? "batched" : "each-segment"},
      {"made_by", made_by().line()}};
  if (host.rate.count() > 0) {
    device["host_attention_bytes_per_s"] = host.rate.count();
    device["host_attention_launch_s"] = host.launch.count();
    device["host_attention_batches"] = 1; // a machine computes a layer's rows together
  }
  nlohmann::json config = model_config; // with the measured element types
  config["_name_or_path"] = shape.name;
  config["torch_dtype"] = shape.weight_element_bytes == 4 ? "float32" : "bfloat16"; // any 2-byte type has the same size
  config["kv_element_bytes"] = subject.kv_element_bytes();
  std::string copies = "bytes,time_us\n";
  for (const CopyTime& copy : link.copies) copies += fmt::format("{},{}\n", copy.bytes, micro(copy.seconds));
  // A layer was timed as a machine computes it: on a GPU within graphs, and a processor launches nothing.
  const std::string meta = fmt::format("{}: {}\ntimed_in_graphs: true\nsource: {}\n",
                                       subject.computes_here() ? "device" : "gpu", subject.name(), made_by().line());
  Status written = bundle.finish({config.dump(2) + "\n", tables.dense, tables.per_sequence, tables.attention, copies,
                                  device.dump(2) + "\n", meta, tables.skew});
  if (!written) return written;
  quiet.link = link.spread;
  warn_if_busy(quiet, subject.computes_here());

  const double step = profile->step(one).total(shape.layers).count();
  fmt::print("{} on {}: {} batches, each timed up to {} times{}\n", shape.name, subject.name(), count, rounds,
             rounds > 1 ? fmt::format(", with a spread of {:.0f} %", 100 * quiet.decoder) : "");
  fmt::print("decode      {} ms for one request with a short context\n", milliseconds_text(step));
  fmt::print("prefill     {} ms for {} tokens\n", milliseconds_text(profile->step(many).total(shape.layers).count()),
             grid.most_rows);
  const std::string mixed = link.each_way
                                ? fmt::format(" to the device and {:.2f} GB/s to the host, each {:.0f} % slower "
                                              "while both are active",
                                              link.out_rate.count() / 1e9, 100 * link.mix_loss)
                                : "";
  fmt::print("link        {:.2f} GB/s{}, and {:.2f} us per copy of a KV block; a spread of {:.0f} %\n",
             link.rate.count() / 1e9, mixed, 1e6 * link.per_copy.count(), 100 * link.spread);
  if (host.rate.count() > 0)
    fmt::print("host        {:.2f} GB/s of KV attended by one thread, and {:.1f} us per layer\n",
               host.rate.count() / 1e9, 1e6 * host.launch.count());
  fmt::print("written to {}: sluice-compare --profile {} --device {}\n", options.out, options.out,
             (fs::path(options.out) / "device.json").string());
  return {};
}

} // namespace profiled
