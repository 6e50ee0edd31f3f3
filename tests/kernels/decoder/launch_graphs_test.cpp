// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder/kernel_queue.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

/// A replay does what was fixed at the capture.
using Graph = std::unique_ptr<std::vector<int>>;

/// Records its arguments.
struct Book {
  std::vector<int> done;
  bool refuses = false;
  std::int64_t asked = 0;

  Expected<Graph> captured(std::span<const Launch<Book>> launches) {
    ++asked;
    if (refuses) return Error{ErrorCode::unsupported, "driver", "no " + std::to_string(asked), ""};
    Book captured;
    for (const Launch<Book>& launch : launches) launch.enqueue(captured);
    return std::make_unique<std::vector<int>>(captured.done);
  }
  void replay(const Graph& graph) { done.insert(done.end(), graph->begin(), graph->end()); }
};
struct Number {
  int of;
  const void* at = nullptr;
  friend bool operator==(const Number&, const Number&) = default;
};
void plus(Book& book, const Number& number) { book.done.push_back(number.of); }
void minus(Book& book, const Number& number) { book.done.push_back(-number.of); }

struct Played {
  Book book;
  LaunchGraphs<Book, Graph> graphs;

  /// What has run, for a sequence of these numbers, from which the last one is subtracted.
  std::vector<int> play(const GraphPlace& place, const std::vector<int>& numbers, const void* at = nullptr) {
    book.done.clear();
    add(place, numbers, at);
    CHECK(book.done.empty()); // collected, but not run
    graphs.give(book);
    return book.done;
  }
  void add(const GraphPlace& place, const std::vector<int>& numbers, const void* at = nullptr) {
    graphs.add(place, [&] {
      for (std::size_t i = 0; i + 1 < numbers.size(); ++i) graphs.launch<&plus>(book, Number{numbers[i], at});
      if (!numbers.empty()) graphs.launch<&minus>(book, Number{numbers.back(), at});
    });
  }
};

constexpr GraphPlace here{1, 8, 4, 0}, there{2, 8, 4, 0};

} // namespace

TEST_CASE("a sequence is launched the first time, captured the second time, and replayed from then on") {
  Played played;
  const std::vector<int> numbers{1, 2, 3}, done{1, 2, -3};
  for (int i = 0; i < 5; ++i) CHECK(played.play(here, numbers) == done);
  CHECK(played.graphs.counts().launched == 1);
  CHECK(played.graphs.counts().made == 1);
  CHECK(played.graphs.counts().replayed == 4);
  CHECK(played.play(there, numbers) == done); // another place's
  CHECK(played.graphs.counts().launched == 2);
  CHECK(played.graphs.counts().refused.empty());
  CHECK(played.play(here, {}).empty());
  played.graphs.launch<&plus>(played.book, Number{7});
  CHECK(played.book.done == std::vector<int>{7}); // of no sequence: runs now
}

TEST_CASE("bodies that follow each other are one sequence, and other work comes behind it") {
  Played played;
  for (int i = 1; i <= 4; ++i) {
    played.book.done.clear();
    played.add(here, {1, 2});
    played.add(there, {3});
    CHECK(played.book.done.empty());
    if (i % 2 == 0)
      played.graphs.launch<&plus>(played.book, Number{7}); // gives the sequence first
    else
      played.graphs.give(played.book);
    std::vector<int> done{1, -2, -3};
    if (i % 2 == 0) done.push_back(7);
    CHECK(played.book.done == done);
    CHECK(played.graphs.counts().launched == 1);
    CHECK(played.graphs.counts().replayed == i - 1);
  }
  CHECK(played.graphs.counts().made == 1);
  CHECK(played.play(here, {1, 2}) == std::vector<int>{1, -2}); // a sequence of its own
  CHECK(played.graphs.counts().launched == 2);
}

TEST_CASE("a sequence with any other parameter, kernel or number of launches is another sequence") {
  Played played;
  int places[2] = {};
  for (int i = 0; i < 3; ++i) played.play(here, {1, 2, 3}, &places[0]);
  CHECK(played.graphs.counts().replayed == 2);
  for (const auto& [numbers, at] : {std::pair{std::vector<int>{1, 2, 4}, &places[0]},
                                    {std::vector<int>{1, 2}, &places[0]},
                                    {std::vector<int>{1, 2, 3}, &places[1]}}) {
    std::vector<int> expected = numbers;
    expected.back() *= -1;
    CHECK(played.play(here, numbers, at) == expected);
  }
  CHECK(played.graphs.counts().replayed == 2);
  CHECK(played.graphs.counts().launched == 4);
}

TEST_CASE("a place keeps a fixed number of graphs, and drops none that is reused in rotation") {
  using Graphs = LaunchGraphs<Book, Graph>;
  constexpr auto most = static_cast<int>(Graphs::most_of_place);
  Played played;
  for (int round = 0; round < 10; ++round)
    for (int i = 0; i <= most; ++i) CHECK(played.play(here, {i, i}) == std::vector<int>{i, -i});
  CHECK(played.graphs.counts().made == most); // the last one is launched each time
  CHECK(played.graphs.counts().launched == most + 10);
  for (std::int64_t i = 0; i < Graphs::stale + 2; ++i) played.play(here, {0, 0});
  for (int i = 0; i < 3; ++i) CHECK(played.play(here, {9, 9}) == std::vector<int>{9, -9}); // replaces one long unused
  CHECK(played.graphs.counts().made == most + 1);
}

TEST_CASE("all places keep a fixed number of graphs: the one unused for longest is dropped, if that is long enough") {
  using Graphs = LaunchGraphs<Book, Graph>;
  constexpr auto most = static_cast<int>(Graphs::most / 2); // sequences of two launches
  Played played;
  const auto at = [](int place) { return GraphPlace{place, 1, 1, 0}; };
  const auto play = [&](int place) { return played.play(at(place), {place, 7}) == std::vector<int>{place, -7}; };
  bool right = true;
  for (int place = 0; place < most; ++place) right = play(place) && play(place) && right;
  CHECK(played.graphs.counts().made == most);
  for (int place = 0; place < most; ++place) right = play(place) && right;
  const auto one_more = [&](int place) {
    const auto before = played.graphs.counts().made;
    for (int i = 0; i < 3; ++i) right = play(place) && right;
    return played.graphs.counts().made - before;
  };
  CHECK(one_more(most) == 0); // all others were just used
  for (int round = 0; round < 2; ++round)
    for (int place = 1; place < most; ++place) right = play(place) && right;
  CHECK(one_more(most) == 1); // replaces place 0's
  CHECK(one_more(most + 1) == 0);
  const auto launched = played.graphs.counts().launched;
  right = play(1) && right; // is still stored
  CHECK(played.graphs.counts().launched == launched);
  right = play(0) && right; // is not
  CHECK(played.graphs.counts().launched == launched + 1);
  CHECK(right);
}

TEST_CASE("if graphs are refused, everything is launched and no capture is tried again") {
  Played played;
  played.book.refuses = true;
  for (int i = 0; i < 5; ++i) CHECK(played.play(here, {1, 2}) == std::vector<int>{1, -2});
  for (int i = 0; i < 5; ++i) CHECK(played.play(there, {1, 2}) == std::vector<int>{1, -2});
  CHECK(played.book.asked == 1);
  CHECK(played.graphs.counts().launched == 10);
  CHECK(played.graphs.counts().made == 0);
  CHECK(played.graphs.counts().refused == "driver: no 1");
}
