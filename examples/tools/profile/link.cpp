// SPDX-License-Identifier: Apache-2.0
// Measures the link for sluice-profile --measure.
#include "profile/link.hpp"

#include "sluice/core/stopwatch.hpp"
#include "sluice/world/cpu/copy_engine.hpp"

#include "profile/spread.hpp"

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

/// Back-to-back copies of one size, until told to stop.
struct Stream {
  static constexpr std::int64_t size = std::int64_t{64} << 20;
  std::vector<std::byte>& from;
  std::vector<std::byte>& to;
  std::int64_t bytes;
  std::int64_t at = 0; ///< only the lane's thread uses it
  std::atomic<bool> over{false};
  struct Mark {
    std::int64_t ns = 0, copies = 0;
  };
  Mark mark{};
  std::int64_t copies = 0; ///< only the lane's thread uses it
  std::atomic<bool> asked{false};

  std::optional<Copy> next(Way way) {
    if (way != Way::to_device || over.load()) return std::nullopt;
    const std::int64_t here = at;
    at = at + 2 * bytes <= size ? at + bytes : 0;
    return Copy{from.data() + here, to.data() + here, bytes};
  }
  void ended(Way /*way*/, const Copy& /*copy*/, CopyOutcome /*outcome*/) {
    ++copies;
    if (!asked.load()) return;
    mark = {WallClock::now(), copies};
    asked = false;
  }
  /// The end of the next copy: the time between two marks covers whole copies.
  Mark next_mark() {
    asked = true;
    while (asked.load()) std::this_thread::sleep_for(std::chrono::microseconds{100});
    return mark;
  }
};

/// The median rate of several windows: five, or more until `seconds` have passed if they spread too much.
CopyTime time_copies(Stream& stream, double rate, double seconds) {
  const Stopwatch clock;
  CopyEngine<Stream> engine(stream, {.to_device_bytes_per_s = rate, .to_host_bytes_per_s = rate});
  engine.wake();
  std::this_thread::sleep_for(std::chrono::milliseconds{10}); // lets the thread start
  std::vector<double> windows;
  Stream::Mark before = stream.next_mark();
  while (windows.size() < 5 || (spread(windows) > most_spread && clock.elapsed().count() < seconds)) {
    std::this_thread::sleep_for(std::chrono::milliseconds{15});
    const Stream::Mark after = stream.next_mark();
    windows.push_back(1e-9 * static_cast<double>(after.ns - before.ns) /
                      static_cast<double>(after.copies - before.copies));
    before = after;
  }
  stream.over = true;
  std::sort(windows.begin(), windows.end());
  return {stream.bytes, windows[windows.size() / 2], spread(windows)};
}

} // namespace

namespace {

/// The link's rate is the largest copies' rate; the time that a block takes beyond its bytes at that rate is the cost
/// per copy.
void conclude(LinkTimes& link, std::int64_t block) {
  const CopyTime& large = link.copies.back();
  link.rate = BytesPerSecond{static_cast<double>(large.bytes) / large.seconds};
  for (const CopyTime& copy : link.copies) {
    link.spread = std::max(link.spread, copy.spread);
    if (copy.bytes == block)
      link.per_copy = Seconds{std::max(0.0, copy.seconds - static_cast<double>(block) / link.rate.count())};
  }
}

/// The median of five measurements; of more, until `seconds` have passed, if they spread too much.
template <class Measure>
CopyTime repeated(std::int64_t bytes, double seconds, const Measure& measure) {
  const Stopwatch clock;
  std::vector<double> times;
  while (times.size() < 5 || (spread(times) > most_spread && clock.elapsed().count() < seconds))
    times.push_back(measure());
  std::sort(times.begin(), times.end());
  return {bytes, times[times.size() / 2], spread(times)};
}

} // namespace

LinkTimes measure_link(double rate, std::int64_t block, double seconds) {
  std::vector<std::byte> from(Stream::size, std::byte{1}), to(Stream::size, std::byte{2});
  std::vector<std::int64_t> sizes{std::int64_t{4} << 10, std::int64_t{64} << 10, std::int64_t{1} << 20, block};
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  LinkTimes link;
  for (const std::int64_t bytes : sizes) {
    if (bytes > Stream::size) continue;
    Stream stream{from, to, bytes};
    link.copies.push_back(time_copies(stream, rate, seconds / static_cast<double>(sizes.size())));
  }
  conclude(link, block);
  link.out_rate = link.rate; // one lane for both directions
  return link;
}

LinkTimes measure_link(CopyTimer& copies, std::int64_t block, double seconds) {
  const std::int64_t most = copies.most_bytes();
  std::vector<std::int64_t> sizes{std::int64_t{4} << 10, std::int64_t{64} << 10, std::int64_t{1} << 20, most / 2,
                                  block};
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  while (sizes.size() > 1 && sizes.back() > most / 2) sizes.pop_back();
  const double each = seconds / static_cast<double>(sizes.size() + 3);
  LinkTimes link;
  link.each_way = true;
  link.batched = true;
  for (const std::int64_t bytes : sizes)
    link.copies.push_back(repeated(bytes, each, [&] { return copies.time(bytes, true, false).to_device; }));
  conclude(link, block);
  const std::int64_t large = sizes.back();
  const CopyTime out = repeated(large, each, [&] { return copies.time(large, false, true).to_host; });
  const CopyTime in_mixed = repeated(large, each, [&] { return copies.time(large, true, true).to_device; });
  const CopyTime out_mixed = repeated(large, each, [&] { return copies.time(large, true, true).to_host; });
  link.out_rate = BytesPerSecond{static_cast<double>(large) / out.seconds};
  const double kept = (link.copies.back().seconds / in_mixed.seconds + out.seconds / out_mixed.seconds) / 2;
  link.mix_loss = std::clamp(1 - kept, 0.0, 0.99);
  for (const CopyTime& copy : {out, in_mixed, out_mixed}) link.spread = std::max(link.spread, copy.spread);
  return link;
}

} // namespace profiled
