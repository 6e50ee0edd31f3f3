// SPDX-License-Identifier: Apache-2.0
// WaitingRoom keeps a bounded number of places in the order of arrival, and names times behind those it expects.
#include "sluice/serve/waiting_room.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

using namespace sluice;

namespace {

Generation asking(std::size_t prompt, std::int64_t most) {
  Generation one;
  one.prompt.assign(prompt, 5);
  one.max_tokens = most;
  one.slo = {Seconds{2}, Seconds{0.1}};
  return one;
}
Generation of_key(std::uint64_t salt, std::size_t prompt) {
  Generation one = asking(prompt, 10);
  one.salt = salt;
  return one;
}
/// The ticket of one that asks so at this time; null: it has none.
const WaitingRoom::Ticket* found(const WaitingRoom& room, const Generation& one, double now) {
  return room.find(WaitingRoom::digest_of(one), Seconds{now});
}
/// Keeps a place for one that is refused now, whose time the pace decided.
bool keep(WaitingRoom& room, const Generation& one, double due, double now = 0) {
  const WaitingRoom::Ticket* const ticket = found(room, one, now);
  return room.keep(one, {.asks = WaitingRoom::digest_of(one),
                         .number = ticket == nullptr ? WaitingRoom::after_all : ticket->number,
                         .work = 4,
                         .due = Seconds{due},
                         .by_pace = true});
}

} // namespace

TEST_CASE("WaitingRoom knows a returning client by what it asks for, and tells others apart") {
  WaitingRoom room;
  const Generation first = asking(100, 10);
  CHECK(keep(room, first, 1));
  REQUIRE(found(room, asking(100, 10), 1) != nullptr);
  CHECK(found(room, of_key(7, 100), 1) == nullptr);
  CHECK(found(room, asking(101, 10), 1) == nullptr);
  CHECK(found(room, asking(100, 11), 1) == nullptr);
  Generation second = first;
  second.sequence = 1; // another choice of the same request
  CHECK(found(room, second, 1) == nullptr);
  second = first;
  second.session = 3;
  CHECK(found(room, second, 1) == nullptr);
  second = first;
  second.priority = -1;
  CHECK(found(room, second, 1) == nullptr);
}

TEST_CASE("WaitingRoom has a ticket for each of those that ask for the same, up to a number") {
  WaitingRoom room;
  const Generation same = asking(100, 10);
  CHECK(keep(room, same, 1));
  CHECK(keep(room, same, 2)); // earlier than told: another client
  CHECK(room.size() == 2);
  REQUIRE(found(room, same, 2) != nullptr);
  CHECK(found(room, same, 2)->due == Seconds{1}); // the oldest
  CHECK(found(room, same, 1 - 0.0005) != nullptr);
  CHECK(found(room, same, 1 - 0.002) == nullptr);
  room.admitted(found(room, same, 1)->number, 0);
  CHECK(room.size() == 1);
  CHECK(found(room, same, 1) == nullptr);
  CHECK(found(room, same, 2) != nullptr);

  for (std::size_t i = 1; i < 20; ++i) CHECK(keep(room, same, 2 + static_cast<double>(i)) == (i < room.most_alike));
  CHECK(room.size() == room.most_alike);
  CHECK(found(room, same, 1.9) == nullptr);
  for (std::size_t i = 0; i < room.most_alike; ++i) { // each finds its place when it was told
    const double due = 2 + static_cast<double>(i);
    REQUIRE(found(room, same, due) != nullptr);
    CHECK(found(room, same, due)->due == Seconds{due});
    room.admitted(found(room, same, due)->number, 0);
  }
  CHECK(room.size() == 0);
}

TEST_CASE("WaitingRoom keeps the place of a client that is refused again, and a bounded number of places") {
  WaitingRoom room;
  room.most = 3;
  for (std::size_t i = 0; i < 3; ++i) CHECK(keep(room, asking(100 + i, 10), 1));
  CHECK(!keep(room, asking(103, 10), 1));
  const std::uint64_t number = found(room, asking(100, 10), 1)->number;
  CHECK(keep(room, asking(100, 10), 5, 1));
  CHECK(room.size() == 3);
  CHECK(found(room, asking(100, 10), 5)->number == number);
  CHECK(found(room, asking(100, 10), 5)->due == Seconds{5});
  room.admitted(number, 0);
  CHECK(room.size() == 2);
  CHECK(keep(room, asking(103, 10), 1));
}

TEST_CASE("WaitingRoom, when full, takes places from the key that has most, and only for those that have fewer") {
  WaitingRoom room;
  room.most = 8;
  for (std::size_t i = 0; i < 8; ++i) CHECK(keep(room, of_key(1, 100 + i), 1)); // alone, it may have all
  CHECK(!keep(room, of_key(1, 200), 1));
  for (std::size_t i = 0; i < 4; ++i) CHECK(keep(room, of_key(2, 100 + i), 1));
  CHECK(room.size() == 8);
  CHECK(!keep(room, of_key(2, 200), 1)); // both have half
  CHECK(!keep(room, of_key(1, 200), 1));
  for (std::size_t i = 0; i < 8; ++i) // the oldest have kept theirs
    CHECK((found(room, of_key(1, 100 + i), 1) != nullptr) == (i < 4));
  CHECK(keep(room, of_key(3, 100), 1));
  CHECK(found(room, of_key(3, 100), 1) != nullptr);
  CHECK(room.size() == 8);
  CHECK(room.return_share() == 0.5); // a client that lost its place has not failed to return
}

TEST_CASE("WaitingRoom expects the share of clients that has returned, and tells times behind those it expects") {
  WaitingRoom room;
  for (std::size_t round = 0; round < 40; ++round) { // all return
    const Generation one = asking(100 + round, 10);
    keep(room, one, 1);
    const std::uint64_t number = found(room, one, 1)->number;
    room.came(number);
    room.admitted(number, 0);
  }
  CHECK(room.return_share() > 0.95);
  for (std::size_t i = 0; i < 20; ++i) {
    const Seconds at = room.place_at(4, WaitingRoom::after_all, Seconds{10}, 0.05);
    for (const Promised& one : room.expected(WaitingRoom::after_all, Seconds{0})) CHECK(one.spec.arrival <= at);
    keep(room, asking(200 + i, 10), at.count());
  }
  CHECK(room.expected(WaitingRoom::after_all, Seconds{0}).size() >= 19);
  CHECK(room.expected(found(room, asking(200, 10), 90)->number, Seconds{0}).empty()); // nobody is before the first
  room.at(Seconds{100});                                                              // none of them has returned
  CHECK(room.size() == 0);
  CHECK(room.return_share() < 0.6);
}

TEST_CASE("WaitingRoom counts a client that returns when told once, and none that comes earlier") {
  WaitingRoom room;
  const Generation one = asking(100, 10);
  const double before = room.return_share();
  for (int i = 0; i < 40; ++i) keep(room, one, 1000); // hammers
  CHECK(room.return_share() == before);
  const std::uint64_t number = found(room, one, 1000)->number;
  room.came(number);
  CHECK(room.return_share() > before);
  const double once = room.return_share();
  room.came(number); // for the same time
  CHECK(room.return_share() == once);
}

TEST_CASE("WaitingRoom learns once from all places of those that ask for the same, whether they return or not") {
  const Generation same = asking(100, 10);
  WaitingRoom one, many;
  keep(one, same, 1);
  for (std::size_t i = 0; i < many.most_alike; ++i) keep(many, same, 1 + 0.01 * static_cast<double>(i));
  CHECK(many.size() == many.most_alike);
  one.at(Seconds{10});
  many.at(Seconds{10}); // nobody has returned
  CHECK(many.size() == 0);
  CHECK(one.return_share() < WaitingRoom{}.return_share());
  CHECK(many.return_share() == one.return_share());

  for (const double due : {20.0, 21.0, 22.0}) keep(many, same, due, 10); // a client that asks three times, and returns
  keep(one, same, 20, 10);
  for (WaitingRoom* const room : {&one, &many}) {
    const std::uint64_t number = found(*room, same, 20)->number;
    room->came(number);
    room->admitted(number, 0);
  }
  for (WaitingRoom* const room : {&one, &many}) { // the next is learned from again, although others' places are kept
    CHECK(keep(*room, same, 22.5, 20));
    room->at(Seconds{40});
    CHECK(room->size() == 0);
  }
  CHECK(many.return_share() == one.return_share());
}

TEST_CASE("WaitingRoom keeps the place of a client that has returned and is held") {
  WaitingRoom room;
  const Generation one = asking(100, 10);
  keep(room, one, 1);
  const std::uint64_t number = found(room, one, 1)->number;
  room.came(number);
  room.stays(number);
  const double share = room.return_share();
  room.at(Seconds{1} + room.patience + Seconds{1.9}); // its TTFT SLO is 2 s
  CHECK(room.size() == 1);
  room.keep(one, {.asks = WaitingRoom::digest_of(one), .number = number, .work = 4, .due = Seconds{6}}); // refused
  CHECK(room.size() == 1);
  room.at(Seconds{6} + room.patience + Seconds{0.1});
  CHECK(room.size() == 0);
  CHECK(room.return_share() < share);
}

TEST_CASE("WaitingRoom gives a held client's ticket to no other, and counts that client as due now") {
  WaitingRoom room;
  const Generation same = asking(100, 10);
  keep(room, same, 1);
  keep(room, same, 2);
  const std::uint64_t first = found(room, same, 1)->number;
  CHECK(room.expected(WaitingRoom::after_all, Seconds{3}).empty()); // both are late
  room.came(first);
  room.stays(first);
  CHECK(found(room, same, 1) == nullptr); // another client, whose time has not come
  REQUIRE(found(room, same, 2) != nullptr);
  CHECK(found(room, same, 2)->number != first);
  const std::vector<Promised> held = room.expected(WaitingRoom::after_all, Seconds{3});
  REQUIRE(held.size() == 1);
  CHECK(held[0].spec.arrival == Seconds{3});
  room.leaves(first);
  CHECK(room.expected(WaitingRoom::after_all, Seconds{3}).empty());
  REQUIRE(found(room, same, 2.5) != nullptr);
  CHECK(found(room, same, 2.5)->number == first); // it may come again
}

TEST_CASE("WaitingRoom passes on the margin of the SLO that its client asked for") {
  WaitingRoom room;
  const SloLead margin{Seconds{0.3}, Seconds{0.02}};
  CHECK(room.keep(asking(100, 10), {.asks = 1, .work = 4, .due = Seconds{1}, .margin = margin}));
  const std::vector<Promised> all = room.expected(WaitingRoom::after_all, Seconds{0});
  REQUIRE(all.size() == 1);
  CHECK(all[0].margin == margin);
}

TEST_CASE("WaitingRoom learns its pace from those that return in time, and only from times that the pace decided") {
  WaitingRoom room;
  const Generation one = asking(100, 10);
  const auto round = [&](bool admitted, bool by_pace, double waited = 0) {
    room.keep(one, {.asks = 1, .work = 4, .due = Seconds{1}, .by_pace = by_pace});
    const std::uint64_t number = room.find(1, Seconds{1})->number;
    if (admitted) return room.admitted(number, waited);
    room.was_told_wrong(number);
    room.forget(number);
  };
  round(false, false);
  round(true, false);
  round(true, false, 0.9);
  const double first = room.pace();
  CHECK(first == WaitingRoom{}.pace());
  round(true, true);
  CHECK(room.pace() > first);
  for (int i = 0; i < 10; ++i) round(true, true, 0.9); // held for most of its TTFT SLO
  CHECK(room.pace() < first);
  for (int i = 0; i < 20; ++i) round(false, true);
  CHECK(room.pace() < 0.5);
  const double slow = room.pace();
  for (int i = 0; i < 200; ++i) round(true, true);
  CHECK(room.pace() > slow);
  for (int i = 0; i < 1000; ++i) round(false, true);
  CHECK(room.pace() == WaitingRoom::least_pace);
  for (int i = 0; i < 10000; ++i) round(true, true);
  CHECK(room.pace() == WaitingRoom::most_pace);
}
