// SPDX-License-Identifier: Apache-2.0
// Bench: a stage of a program here: which device, how much to do, and its rows as they come.
#pragma once

#include "bench_device.hpp"
#include "numbers.hpp"
#include "row.hpp"

#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <vector>

namespace gpu_bench {

/// The device does nothing more for this process.
struct ContextLost : Failed {
  using Failed::Failed;
};

class Bench {
 public:
  Bench(Device& device_, std::string stage, bool tiny_, int repetitions_, std::string program, int after = 0)
      : device(device_),
        tiny(tiny_),
        repetitions(repetitions_),
        stage_(std::move(stage)),
        program_(std::move(program)),
        after_(after) {
    if (tiny) device.be_brief();
  }

  Device& device;
  bool tiny; ///< sizes for the emulator and for compute-sanitizer, which say nothing of speed
  int repetitions;

  [[nodiscard]] int size(int full, int small) const { return tiny ? small : full; }

  /// A row that `measure` fills. What it throws is the row's failure; one that ended the device's context ends the
  /// stage (ContextLost), and a new process goes on behind it: --after. A line says that the row begins, so that
  /// whoever waits knows which it was that died or hung; no row needs what another has left.
  template <class Measure>
  void row(const std::string& name, const std::string& config, Measure&& measure) {
    if (rows_++ < after_) return;
    const auto begin = std::chrono::steady_clock::now();
    std::printf("{\"begins\": {\"stage\": %s, \"name\": %s, \"config\": %s, \"repro\": %s}}\n", quoted(stage_).c_str(),
                quoted(name).c_str(), quoted(config).c_str(), quoted(program_).c_str());
    std::fflush(stdout);
    Row row;
    row.stage = stage_;
    row.name = name;
    row.config = config;
    try {
      measure(row);
      device.finish();
    } catch (const std::exception& error) {
      row.failed = error.what();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!print(row, seconds, program_)) ++failed_;
    if (!row.failed.empty() && !device.alive()) throw ContextLost(row.failed);
  }
  /// Rows that are not measured here, and why.
  void skip(const std::string& name, int times, const std::string& reason) {
    for (int i = 0; i < times; ++i) row(name, "", [&](Row& row) { row.skipped = reason; });
  }
  [[nodiscard]] int failed() const { return failed_; }

  /// How many sets of buffers calls rotate among, so that none finds its inputs in a cache: four times the device's
  /// second level together, and at most `calls`.
  [[nodiscard]] int sets(double bytes_of_one) const {
    if (tiny) return 1;
    const int wanted = static_cast<int>(4 * device.cache_bytes() / bytes_of_one) + 1;
    return wanted < 1 ? 1 : wanted > calls ? calls : wanted;
  }
  static constexpr int calls = 16; ///< of a graph, at least

 private:
  std::string stage_, program_;
  int after_, rows_ = 0, failed_ = 0;
};

/// The stages that are programs.
void primitives(Bench& bench);
void ceilings(Bench& bench);
void copies(Bench& bench);
void row_rates(Bench& bench);
void attention_rates(Bench& bench);
void product_rates(Bench& bench);
void environment(Bench& bench);
/// The other elements, head sizes and kinds, on a device alone: after the rows that claims stand on.
void row_configurations(Bench& bench);
void attention_configurations(Bench& bench);
void product_configurations(Bench& bench);

} // namespace gpu_bench
