// SPDX-License-Identifier: Apache-2.0
// SseParser: the events of a stream, however its bytes are divided.
#include "sluice/core/random.hpp"

#include "../../../examples/tools/load/sse.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace {

using loading::SseParser;
using Texts = std::vector<std::string>;

Texts events_of(std::string_view text, std::size_t piece = 1000) {
  SseParser parser;
  Texts events;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
    parser.feed(text.substr(0, piece), [&](std::string_view data) { events.emplace_back(data); });
  return events;
}

} // namespace

TEST_CASE("SseParser: events end with an empty line, for all line endings") {
  CHECK(events_of("data: a\n\ndata: b\n\n") == Texts{"a", "b"});
  CHECK(events_of("data: a\r\n\r\ndata: b\r\n\r\n") == Texts{"a", "b"});
  CHECK(events_of("data: a\r\rdata: b\r\r") == Texts{"a", "b"});
  CHECK(events_of("data: a\r\n\ndata: b\n\r\n") == Texts{"a", "b"});
}

TEST_CASE("SseParser: one space is dropped, lines of data are joined, empty data is data") {
  CHECK(events_of("data:a\n\ndata:  a\n\n") == Texts{"a", " a"});
  CHECK(events_of("data: a\ndata: b\n\n") == Texts{"a\nb"});
  CHECK(events_of("data\n\ndata:\n\n") == Texts{"", ""});
}

TEST_CASE("SseParser: comments and other fields are not events; unknown lines are counted") {
  CHECK(events_of(": hello\n\nevent: x\nid: 7\nretry: 10\n\n\n\n") == Texts{});
  SseParser parser;
  int events = 0;
  parser.feed("event: x\ndata: a\nDATA: b\n{\"a\":1}\n\n", [&](std::string_view data) {
    ++events;
    CHECK(data == "a");
  });
  CHECK(events == 1);
  CHECK(parser.unknown_lines() == 2);
}

TEST_CASE("SseParser: an event is not complete before its empty line") {
  for (const char* text : {"data: a", "data: a\n", "dat"}) {
    SseParser parser;
    parser.feed(text, [](std::string_view) { FAIL("an event"); });
    CHECK_FALSE(parser.between_events());
  }
  SseParser parser;
  parser.feed("data: a\n\n", [](std::string_view) {});
  CHECK(parser.between_events());
}

TEST_CASE("SseParser: dividing the bytes anywhere has no effect") {
  sluice::Random random(5);
  const std::string_view parts[] = {"data: ", "data:", "x", "\n", "\r\n", "\r", "\n\n", ":c", "id: 1", "\xC3\xA9", " "};
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 30; ++i) text += parts[random.below(std::size(parts))];
    const Texts whole = events_of(text);
    for (const std::size_t piece : {1u, 2u, 3u, 7u}) CHECK(events_of(text, piece) == whole);
  }
}
