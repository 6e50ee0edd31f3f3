// SPDX-License-Identifier: Apache-2.0
// Measures whether the copy engine keeps its configured rate, when a single copy ends, and how much CPU time it takes.
// Every figure is a median, over windows of 50 ms or over copies. Time it on a quiet machine.
#include "sluice/world/cpu/copy_engine.hpp"
#include "sluice/world/cpu/cpu_memory.hpp"

#include "shared/flag_errors.hpp"
#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

using namespace sluice;

namespace {

std::int64_t process_cpu_ns() {
  std::timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

/// Both memories: larger than a cache, and touched.
struct Tiers {
  static constexpr std::int64_t size = std::int64_t{128} << 20;
  VirtualMemory device = *VirtualMemory::reserve(Bytes{size});
  VirtualMemory host = *VirtualMemory::reserve(Bytes{size});
  Tiers() {
    std::memset(device.data(), 1, static_cast<std::size_t>(size));
    std::memset(host.data(), 2, static_cast<std::size_t>(size));
  }
};

/// One direction's bytes: the rate of each window, from the last completion before the window to the last one within
/// it, so that no time between windows is left out.
struct Windows {
  static constexpr std::int64_t length = 50'000'000;
  struct Window {
    std::int64_t last = 0, bytes = 0;
  };
  std::vector<Window> all = std::vector<Window>(4096);
  void ended(std::int64_t since, std::int64_t now, std::int64_t bytes) {
    const auto i = static_cast<std::size_t>((now - since) / length);
    if (i >= all.size()) return;
    all[i].bytes += bytes;
    all[i].last = now;
  }
  /// Bytes per second. Leaves out the first window, in which the thread starts, and the last, which is cut off.
  [[nodiscard]] std::vector<double> rates() const {
    std::vector<Window> filled;
    for (const Window& window : all)
      if (window.bytes > 0) filled.push_back(window);
    std::vector<double> rates;
    for (std::size_t i = 1; i + 1 < filled.size(); ++i)
      rates.push_back(static_cast<double>(filled[i].bytes) / static_cast<double>(filled[i].last - filled[i - 1].last) *
                      1e9);
    return rates;
  }
};

/// Copies blocks endlessly, in one direction or both, which alternate if one lane serves both. Each lane's thread uses
/// its own member.
struct Stream {
  Tiers& tiers;
  std::int64_t block;
  bool to_device, to_host, one_lane;
  std::int64_t since = WallClock::now();
  std::array<Windows, 2> windows{};
  std::array<std::int64_t, 2> at{};
  bool turn = false;

  std::optional<Copy> next(Way way) {
    const bool back = way == Way::to_host;
    if (!(back ? to_host : to_device)) return std::nullopt;
    if (one_lane && to_device && to_host && turn != back) return std::nullopt;
    turn = !turn;
    std::int64_t& offset = at[static_cast<std::size_t>(way)];
    const std::int64_t half = Tiers::size / 2; // each direction has its half: no copy's source is another's destination
    const std::int64_t here = offset + (back ? half : 0);
    offset = offset + 2 * block <= half ? offset + block : 0;
    Copy copy{tiers.host.data() + here, tiers.device.data() + here, block};
    if (back) copy = {tiers.device.data() + here, tiers.host.data() + here, block};
    return copy;
  }
  void ended(Way way, const Copy& copy, CopyOutcome /*outcome*/) {
    windows[one_lane ? 0 : static_cast<std::size_t>(way)].ended(since, WallClock::now(), copy.bytes);
  }
};

/// One copy at a time, started by the main thread.
struct Lone {
  Tiers& tiers;
  std::int64_t block;
  std::atomic<bool> wanted{false};
  std::atomic<std::int64_t> end{0};

  std::optional<Copy> next(Way way) {
    if (way == Way::to_host || !wanted.exchange(false)) return std::nullopt;
    return Copy{tiers.host.data(), tiers.device.data(), block};
  }
  void ended(Way, const Copy&, CopyOutcome) { end.store(WallClock::now()); }
};

void sleep_for(double seconds) { WallClock::sleep_until(WallClock::now() + static_cast<std::int64_t>(seconds * 1e9)); }

std::string size_name(std::int64_t bytes) {
  return bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

struct Ways {
  const char* name;
  bool to_device, to_host, each_way;
};
constexpr std::array all_ways{Ways{"to device", true, false, false}, Ways{"to host", false, true, false},
                              Ways{"both, one lane", true, true, false}, Ways{"both, each way", true, true, true}};

/// Prints the achieved rate over the configured one (for an unthrottled link: in GB/s), and all lanes' share of one
/// core. Returns the slower lane's rate.
double measure_stream(Tiers& tiers, double rate, std::int64_t block, const Ways& ways, double seconds,
                      double unthrottled) {
  Stream stream{tiers, block, ways.to_device, ways.to_host, !ways.each_way};
  const std::int64_t cpu = process_cpu_ns();
  {
    CopyEngine<Stream> engine{stream, {rate, rate, ways.each_way, 0}};
    sleep_for(seconds);
  }
  const double share = static_cast<double>(process_cpu_ns() - cpu) * 1e-9 / seconds;
  double slower = 0;
  for (const Windows& windows : stream.windows) {
    const std::vector<double> rates = windows.rates();
    if (rates.empty()) continue;
    const double told = rate > 0 ? rate : 1e9;
    const double median = quantile(rates, 0.5);
    slower = slower == 0 ? median : std::min(slower, median);
    fmt::print("{:>6} {:>8}  {:<15} {:>8.4f} {:>8.4f} {:>8.4f} {:>6.0f} %{}\n",
               rate > 0 ? fmt::format("{:.2f}", rate * 1e-9) : "-", size_name(block), ways.name, median / told,
               quantile(rates, 0.1) / told, quantile(rates, 0.9) / told, 100 * share,
               rate > 0 && rate > 0.97 * unthrottled ? "  beyond this machine" : "");
  }
  return slower;
}

void measure_lone(Tiers& tiers, double rate, std::int64_t block, int copies) {
  Lone lone{tiers, block, {}, {}};
  CopyEngine<Lone> engine{lone, {rate, rate, false, 0}};
  std::vector<double> late;
  for (int i = 0; i < copies; ++i) {
    sleep_for(1e-3);
    lone.end.store(0);
    lone.wanted.store(true);
    const std::int64_t asked = WallClock::now();
    engine.wake();
    while (lone.end.load() == 0) sleep_for(50e-6);
    late.push_back(static_cast<double>(lone.end.load() - asked) * 1e-3 - static_cast<double>(block) / rate * 1e6);
  }
  fmt::print("{:>6.2f} {:>8} {:>10.1f} {:>8.1f} {:>8.1f} {:>8.1f}\n", rate * 1e-9, size_name(block),
             static_cast<double>(block) / rate * 1e6, quantile(late, 0.1), quantile(late, 0.5), quantile(late, 0.9));
}

/// The rate of one thread that copies the same blocks by `copy(to, from, bytes)`.
template <class CopyBlock>
void measure_one_thread(Tiers& tiers, std::int64_t block, const char* name, const CopyBlock& copy) {
  std::vector<double> rates;
  for (int round = 0; round < 9; ++round) {
    const std::int64_t began = WallClock::now();
    for (std::int64_t at = 0; at + block <= Tiers::size / 2; at += block)
      copy(tiers.device.data() + at, tiers.host.data() + at, block);
    rates.push_back(static_cast<double>(Tiers::size / 2) / static_cast<double>(WallClock::now() - began));
  }
  fmt::print("{:>6} {:>8}  {:<15} {:>8.4f} {:>8.4f} {:>8.4f}\n", "-", size_name(block), name, quantile(rates, 0.5),
             quantile(rates, 0.1), quantile(rates, 0.9));
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"Compares the copy engine's rate with its configured rate."};
  double seconds = 1;
  app.add_option("--seconds", seconds, "duration of each row")->check(CLI::Range(0.1, 60.0));
  if (const std::optional<int> status = parse_or_say(app, argc, argv)) return *status;
  Tiers tiers;
  constexpr std::array<std::int64_t, 3> blocks{16 << 10, 64 << 10, 1 << 20};
  constexpr std::array rates{0.25e9, 0.5e9, 1e9, 2e9, 4e9};

  constexpr const char* header = "{:>6} {:>8}  {:<15} {:>8} {:>8} {:>8} {:>8}\n";
  fmt::print("unthrottled, GB/s, and one thread that copies the same blocks itself\n");
  fmt::print(header, "GB/s", "block", "ways", "median", "p10", "p90", "cpu");
  std::array<std::array<double, all_ways.size()>, blocks.size()> most{};
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    measure_one_thread(tiers, blocks[b], "memcpy", [](std::byte* to, const std::byte* from, std::int64_t bytes) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    });
    measure_one_thread(tiers, blocks[b], "move_bytes",
                       [](std::byte* to, const std::byte* from, std::int64_t bytes) { move_bytes(to, from, bytes); });
    for (std::size_t w = 0; w < all_ways.size(); ++w)
      most[b][w] = measure_stream(tiers, 0, blocks[b], all_ways[w], seconds, 0);
  }
  fmt::print("\nachieved / configured rate, in windows of 50 ms; `cpu`: all lanes' share of one core\n");
  fmt::print(header, "GB/s", "block", "ways", "median", "p10", "p90", "cpu");
  for (const double rate : rates)
    for (std::size_t b = 0; b < blocks.size(); ++b)
      for (std::size_t w = 0; w < all_ways.size(); ++w)
        (void)measure_stream(tiers, rate, blocks[b], all_ways[w], seconds, most[b][w]);
  fmt::print("\na single copy on a sleeping lane: microseconds after (start + bytes / rate)\n");
  fmt::print("{:>6} {:>8} {:>10} {:>8} {:>8} {:>8}\n", "GB/s", "block", "its time", "p10", "median", "p90");
  for (const double rate : rates)
    for (const std::int64_t block : blocks) measure_lone(tiers, rate, block, 200);
}
