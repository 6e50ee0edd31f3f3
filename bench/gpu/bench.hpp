// SPDX-License-Identifier: Apache-2.0
// Bench: one stage of a program in this folder: its device, its amount of work, and its rows as they complete.
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

/// The device context has failed; this process can use the device no more.
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
  bool tiny; ///< sizes for the emulator and for compute-sanitizer, whose speed is meaningless
  int repetitions;

  [[nodiscard]] int size(int full, int small) const { return tiny ? small : full; }

  /// A row that `measure` fills. An exception fails the row; one that ended the device's context ends the stage
  /// (ContextLost), and a new process continues after it (--after). A line is printed before the row begins, so that
  /// the caller knows which row died or hung. No row needs data that another has left.
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
  /// Skips rows, with the reason.
  void skip(const std::string& name, int times, const std::string& reason) {
    for (int i = 0; i < times; ++i) row(name, "", [&](Row& row) { row.skipped = reason; });
  }
  [[nodiscard]] int failed() const { return failed_; }

  /// Number of buffer sets among which calls rotate, so that no call finds its inputs in a cache: together four times
  /// the device's L2 cache, and at most `calls` sets.
  [[nodiscard]] int sets(double bytes_of_one) const {
    if (tiny) return 1;
    const int wanted = static_cast<int>(4 * device.cache_bytes() / bytes_of_one) + 1;
    return wanted < 1 ? 1 : wanted > calls ? calls : wanted;
  }
  static constexpr int calls = 16; ///< per graph, at least

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
/// The other elements, head sizes and kinds, only on a device, after the rows that the claims need.
void row_configurations(Bench& bench);
void attention_configurations(Bench& bench);
void product_configurations(Bench& bench);

} // namespace gpu_bench
