// SPDX-License-Identifier: Apache-2.0
// WaitingRoom keeps a bounded number of places in the order of arrival, and names times behind those it expects.
#include "sluice/serve/waiting_room.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

using namespace sluice;

namespace {

Generation asking(std::size_t prompt, std::int64_t most) {
  Generation one;
  one.prompt.assign(prompt, 5);
  one.max_tokens = most;
  one.slo = {Seconds{2}, Seconds{0.1}};
  return one;
}
bool keep(WaitingRoom& room, const Generation& one, double due) {
  return room.keep(WaitingRoom::digest_of(one), one, 4, Seconds{due});
}

} // namespace

TEST_CASE("WaitingRoom knows a returning client by what it asks for, and tells others apart") {
  WaitingRoom room;
  const Generation first = asking(100, 10);
  CHECK(keep(room, first, 1));
  REQUIRE(room.find(WaitingRoom::digest_of(asking(100, 10))) != nullptr);
  Generation other = first;
  other.salt = 7; // of another key
  CHECK(room.find(WaitingRoom::digest_of(other)) == nullptr);
  CHECK(room.find(WaitingRoom::digest_of(asking(101, 10))) == nullptr);
  CHECK(room.find(WaitingRoom::digest_of(asking(100, 11))) == nullptr);
}

TEST_CASE("WaitingRoom keeps the place of a client that is refused again, and a bounded number of places") {
  WaitingRoom room;
  room.most = 3;
  for (std::size_t i = 0; i < 3; ++i) CHECK(keep(room, asking(100 + i, 10), 1));
  CHECK(!keep(room, asking(103, 10), 1));
  const std::uint64_t number = room.find(WaitingRoom::digest_of(asking(100, 10)))->number;
  CHECK(keep(room, asking(100, 10), 5));
  CHECK(room.size() == 3);
  CHECK(room.find(WaitingRoom::digest_of(asking(100, 10)))->number == number);
  room.admitted(number, true);
  CHECK(room.size() == 2);
  CHECK(keep(room, asking(103, 10), 1));
}

TEST_CASE("WaitingRoom expects the share of clients that has returned, and tells times behind those it expects") {
  WaitingRoom room;
  for (std::size_t round = 0; round < 40; ++round) { // all return
    const Generation one = asking(100 + round, 10);
    keep(room, one, 1);
    const std::uint64_t number = room.find(WaitingRoom::digest_of(one))->number;
    room.came(number);
    room.admitted(number, true);
  }
  CHECK(room.return_share() > 0.95);
  for (std::size_t i = 0; i < 20; ++i) {
    const Seconds at = room.place_at(4, WaitingRoom::after_all, Seconds{10}, 0.05);
    for (const Promised& one : room.expected(WaitingRoom::after_all, Seconds{0})) CHECK(one.spec.arrival <= at);
    keep(room, asking(200 + i, 10), at.count());
  }
  CHECK(room.expected(WaitingRoom::after_all, Seconds{0}).size() >= 19);
  CHECK(room.expected(room.find(WaitingRoom::digest_of(asking(200, 10)))->number, Seconds{0})
            .empty());   // nobody is before the first
  room.at(Seconds{100}); // none of them has returned
  CHECK(room.size() == 0);
  CHECK(room.return_share() < 0.6);
}

TEST_CASE("WaitingRoom learns its pace from those that return in time") {
  WaitingRoom room;
  const Generation one = asking(100, 10);
  const auto round = [&](bool admitted) {
    keep(room, one, 1);
    const std::uint64_t number = room.find(WaitingRoom::digest_of(one))->number;
    if (admitted) return room.admitted(number, true);
    room.was_told_wrong(number);
    room.forget(number);
  };
  for (int i = 0; i < 20; ++i) round(false);
  CHECK(room.pace() < 0.7);
  const double slow = room.pace();
  for (int i = 0; i < 200; ++i) round(true);
  CHECK(room.pace() > slow);
  keep(room, one, 1); // told at this pace; admissions of those that were told at a slower one do not raise it
  const double pace = room.pace();
  room.admitted(room.find(WaitingRoom::digest_of(one))->number, false);
  CHECK(room.pace() == pace);
}
