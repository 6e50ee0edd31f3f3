// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/serve/completion_job.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace sluice;

TEST_CASE("StopStrings passes on the text before the first complete stop string, and no part of that string") {
  Random random(7);
  const auto draw = [&](std::uint64_t below) { return static_cast<std::size_t>(random() % below); };
  for (int trial = 0; trial < 20'000; ++trial) {
    // Only two letters, so that stop strings begin often, overlap, and end inside one another.
    const auto letters = [&](std::size_t length) {
      std::string text;
      for (std::size_t i = 0; i < length; ++i) text += "ab"[draw(2)];
      return text;
    };
    const std::string whole = letters(draw(30));
    std::vector<std::string> stops;
    for (std::size_t i = draw(4); i > 0; --i) stops.push_back(letters(draw(5)));
    // The reference searches the whole text after each piece.
    const auto first_in = [&](std::string_view text) {
      std::size_t first = std::string::npos;
      for (const std::string& stop : stops)
        if (!stop.empty()) first = std::min(first, text.find(stop));
      return first;
    };
    StopStrings filter(stops);
    std::string passed, expected = whole;
    for (std::size_t at = 0; at < whole.size() && !filter.hit();) {
      const std::size_t piece = 1 + draw(4);
      passed += filter.push(std::string_view(whole).substr(at, piece));
      at += piece;
      const std::size_t first = first_in(std::string_view(whole).substr(0, at));
      CHECK(filter.hit() == (first != std::string::npos));
      if (first != std::string::npos) expected = whole.substr(0, first);
    }
    passed += filter.finish();
    CAPTURE(whole);
    CHECK(passed == expected);
  }
}

TEST_CASE("StopStrings passes text on at once if no stop string can begin in it") {
  StopStrings filter({"\n\nUser:"});
  CHECK(filter.push("Hello") == "Hello");
  CHECK(filter.push(" there\n") == " there");
  CHECK(filter.push("\n") == "");
  CHECK(filter.push("U") == "");
  CHECK(filter.push("gly") == "\n\nUgly");
  CHECK(filter.push("\n\nUser: x") == "");
  CHECK(filter.hit());
  CHECK(filter.push("more") == "");
  CHECK(filter.finish() == "");
}

TEST_CASE("StopStrings without stops, or with only empty ones, passes everything on") {
  for (const auto& stops : {std::vector<std::string>{}, std::vector<std::string>{""}}) {
    StopStrings filter(stops);
    CHECK(filter.push("abc") == "abc");
    CHECK(filter.finish() == "");
    CHECK(!filter.hit());
  }
}

TEST_CASE("StopStrings keeps the stop string if asked, and drops what follows") {
  StopStrings filter({"END", "stop"}, true);
  CHECK(filter.push("x st") == "x ");
  CHECK(filter.push("op END") == "stop");
  CHECK(filter.hit());
  CHECK(filter.push("more") == "");
}
