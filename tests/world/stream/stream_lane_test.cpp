// SPDX-License-Identifier: Apache-2.0
// When a stream's work begins: an event's time if the stream is idle, and otherwise the last of other tickets' times.
#include "sluice/world/stream/stream_lane.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace sluice::testing::lane {

/// Only counts tickets, and has times that the test sets.
class TicketMemory {
 public:
  using Time = std::chrono::steady_clock::time_point;
  [[nodiscard]] Status reserve(Bytes, Bytes, Bytes) { return {}; }
  [[nodiscard]] std::byte* device_arena() { return bytes_.data(); }
  [[nodiscard]] std::byte* beside_arena() { return bytes_.data(); }
  [[nodiscard]] std::byte* host_arena() { return bytes_.data(); }
  void copy_async(StreamId, const Copy&) {}
  [[nodiscard]] Ticket record(StreamId stream, Timing timing = Timing::untimed) {
    CHECK(timing == Timing::timed); // a lane's tickets may all be asked for their time
    ++tickets;
    return {stream, ++last_[static_cast<std::size_t>(stream)]};
  }
  void wait(StreamId, const Ticket&) { ++waits; }
  [[nodiscard]] bool done(const Ticket& ticket) { return times.contains({ticket.stream, ticket.number}); }
  void synchronize(const Ticket&) {}
  [[nodiscard]] Time time(const Ticket& ticket) { return Time{times.at({ticket.stream, ticket.number})}; }
  void rest() {}

  int tickets = 0, waits = 0;
  std::map<std::pair<StreamId, std::uint64_t>, std::chrono::seconds> times;

 private:
  std::array<std::byte, 64> bytes_{};
  std::array<std::uint64_t, stream_count> last_{};
};
static_assert(MemoryDevice<TicketMemory>);

struct Lanes {
  TicketMemory memory;
  BlockUses device{8}, host{8};
  EveryWait every;
  StreamLane<TicketMemory, EveryWait> compute{memory, device, host, 8, StreamId::compute, every};
  StreamLane<TicketMemory, EveryWait> in{memory, device, host, 8, StreamId::to_device, every};
  StreamLane<TicketMemory, EveryWait> out{memory, device, host, 8, StreamId::to_host, every};

  void done(const Ticket& ticket, int second) {
    memory.times[{ticket.stream, ticket.number}] = std::chrono::seconds{second};
  }
};

constexpr auto kv = StreamWait::Content::kv;

TEST_CASE("an idle stream's work begins at an event of its own") {
  Lanes lanes;
  (void)lanes.in.writes({0, 1}, kv);
  const Ticket arrived = lanes.in.launched();
  (void)lanes.compute.reads({0, 1}, kv);
  const BeginTickets begun = lanes.compute.begins(false);
  CHECK(lanes.memory.tickets == 2);
  CHECK_FALSE(all_done(lanes.memory, begun));
  lanes.done(arrived, 5);
  CHECK_FALSE(all_done(lanes.memory, begun));
  lanes.done({StreamId::compute, 1}, 7);
  CHECK(all_done(lanes.memory, begun));
  CHECK(last_time(lanes.memory, begun) == TicketMemory::Time{std::chrono::seconds{7}});
}

TEST_CASE("a busy stream's work begins when the work before it and everything it waits for is done, without an event") {
  for (const int second : {1, 3, 9}) { // the copy in arrives before, between or after the others
    CAPTURE(second);
    Lanes lanes;
    (void)lanes.compute.writes({2, 1}, kv);
    const Ticket before = lanes.compute.launched();
    (void)lanes.in.writes({0, 1}, kv);
    const Ticket arrived = lanes.in.launched();
    (void)lanes.out.reads({1, 1}, kv);
    const Ticket sent = lanes.out.launched();
    const int tickets = lanes.memory.tickets;
    (void)lanes.compute.reads({0, 1}, kv);
    (void)lanes.compute.writes({1, 1}, kv);
    const BeginTickets begun = lanes.compute.begins(true);
    CHECK(lanes.memory.tickets == tickets);
    CHECK(lanes.memory.waits == 2);
    CHECK(lanes.compute.arrival() == arrived);
    lanes.done(before, 2);
    lanes.done(arrived, second);
    CHECK_FALSE(all_done(lanes.memory, begun));
    lanes.done(sent, 4);
    CHECK(all_done(lanes.memory, begun));
    CHECK(last_time(lanes.memory, begun) == TicketMemory::Time{std::chrono::seconds{std::max(second, 4)}});
    // The next work waits for nothing more.
    const Ticket layer = lanes.compute.launched();
    (void)lanes.compute.reads({0, 1}, kv);
    lanes.done(layer, 11);
    CHECK(last_time(lanes.memory, lanes.compute.begins(true)) == TicketMemory::Time{std::chrono::seconds{11}});
  }
}

} // namespace sluice::testing::lane
