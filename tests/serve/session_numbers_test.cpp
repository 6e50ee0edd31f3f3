// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/serve/session_numbers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;

TEST_CASE("sessions are numbered by key and name, and their turns counted; the key with the most forgets its oldest") {
  struct Known {
    std::pair<std::uint64_t, std::string> name;
    SessionNumbers::Turn last;
  };
  Random random(5);
  SessionNumbers numbers(6);
  std::vector<Known> known; // the reference: the least recent first
  std::set<std::uint32_t> given;
  for (int i = 0; i < 2'000; ++i) {
    const std::pair<std::uint64_t, std::string> name{random.below(3),
                                                     std::string(1, static_cast<char>('a' + random.below(4)))};
    const SessionNumbers::Turn turn = numbers.next(name.first, name.second);
    const auto at = std::find_if(known.begin(), known.end(), [&](const Known& one) { return one.name == name; });
    if (at != known.end()) {
      CHECK(turn.session == at->last.session);
      CHECK(turn.turn == at->last.turn + 1);
      known.erase(at);
    } else {
      CHECK(turn.turn == 0);
      CHECK(turn.session > 0);
      CHECK(given.insert(turn.session).second);
      if (known.size() == 6) {
        std::array<int, 3> of{};
        for (const Known& one : known) ++of[one.name.first];
        const auto most =
            static_cast<std::uint64_t>(std::max_element(of.begin(), of.end()) - of.begin()); // the first of several
        known.erase(
            std::find_if(known.begin(), known.end(), [most](const Known& one) { return one.name.first == most; }));
      }
    }
    known.push_back({name, turn});
  }
}

TEST_CASE("a key with very many sessions makes no other key forget one") {
  SessionNumbers numbers(10);
  for (const char* const name : {"a", "b", "c"}) (void)numbers.next(1, name);
  for (int i = 0; i < 100; ++i) (void)numbers.next(2, std::to_string(i));
  for (const char* const name : {"a", "b", "c"}) CHECK(numbers.next(1, name).turn == 1);
}
