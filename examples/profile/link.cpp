// SPDX-License-Identifier: Apache-2.0
// The link of sluice-profile --measure.
#include "profile/link.hpp"

#include "sluice/backend/cpu/copy_engine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

namespace profiled {

using namespace sluice;

namespace {

/// Copies of one size, one behind the other, until it is told to end.
struct Stream {
  static constexpr std::int64_t size = std::int64_t{64} << 20;
  std::vector<std::byte>& from;
  std::vector<std::byte>& to;
  std::int64_t bytes;
  std::int64_t at = 0; ///< of the lane's thread
  std::atomic<bool> over{false};

  std::optional<Copy> next(Way way) {
    if (way != Way::to_device || over.load()) return std::nullopt;
    const std::int64_t here = at;
    at = at + 2 * bytes <= size ? at + bytes : 0;
    return Copy{from.data() + here, to.data() + here, bytes};
  }
  void ended(Way /*way*/, const Copy& /*copy*/, CopyOutcome /*outcome*/) {}
};

double seconds_of(Stream& stream, double rate) {
  CopyEngine<Stream> engine(stream, {.to_device_bytes_per_s = rate, .to_host_bytes_per_s = rate});
  engine.wake();
  std::this_thread::sleep_for(std::chrono::milliseconds{10}); // the thread starts
  std::vector<double> windows;
  for (int i = 0; i < 5; ++i) {
    const auto begin = WallClock::now();
    const CopyTotals before = engine.totals();
    CopyTotals after = before;
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds{15});
      after = engine.totals();
    } while (after.to_device.copies == before.to_device.copies);
    windows.push_back(1e-9 * static_cast<double>(WallClock::now() - begin) /
                      static_cast<double>(after.to_device.copies - before.to_device.copies));
  }
  stream.over = true;
  std::sort(windows.begin(), windows.end());
  return windows[windows.size() / 2];
}

} // namespace

LinkTimes measure_link(double rate, std::int64_t block) {
  std::vector<std::byte> from(Stream::size, std::byte{1}), to(Stream::size, std::byte{2});
  std::vector<std::int64_t> sizes{std::int64_t{4} << 10, std::int64_t{64} << 10, std::int64_t{1} << 20, block};
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  LinkTimes link;
  for (const std::int64_t bytes : sizes) {
    if (bytes > Stream::size) continue;
    Stream stream{from, to, bytes};
    link.copies.push_back({bytes, seconds_of(stream, rate)});
  }
  // The rate is that of the largest copies; what a block takes beyond its bytes at that rate is each copy's own.
  const auto here =
      std::find_if(link.copies.begin(), link.copies.end(), [&](const CopyTime& copy) { return copy.bytes == block; });
  const CopyTime& large = link.copies.back();
  link.rate = BytesPerSecond{static_cast<double>(large.bytes) / large.seconds};
  if (here != link.copies.end())
    link.per_copy = Seconds{std::max(0.0, here->seconds - static_cast<double>(block) / link.rate.count())};
  return link;
}

} // namespace profiled
