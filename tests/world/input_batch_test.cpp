// SPDX-License-Identifier: Apache-2.0
// InputBatch: rows as vLLM's persistent batch keeps them.
#include "sluice/world/simulated.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace sluice;

namespace {

/// Requests by slot; a letter's slot is its number.
struct Batch {
  InputBatch rows;
  std::vector<RequestRow> requests{26};
  std::uint32_t next_id = 100;

  Batch() {
    for (RequestRow& row : requests) row.id = RequestId{next_id++};
  }
  std::string after(const std::string& scheduled) {
    View view;
    view.rows = requests;
    std::vector<Claim> claims;
    for (const char letter : scheduled) {
      Claim claim{};
      claim.slot = Slot{static_cast<std::uint32_t>(letter - 'a')};
      claim.tokens = Tokens{1};
      claims.push_back(claim);
    }
    rows.update(view, claims);
    std::string order;
    for (const Slot slot : rows.slots()) order += static_cast<char>('a' + index(slot));
    return order;
  }
};

} // namespace

TEST_CASE("rows stay, newcomers fill the first holes, and the last rows fill the rest") {
  Batch batch;
  CHECK(batch.after("abcde") == "abcde");
  CHECK(batch.after("abcde") == "abcde");
  CHECK(batch.after("acdef") == "afcde"); // f takes b's row
  CHECK(batch.after("acdefg") == "afcdeg");
  CHECK(batch.after("cdeg") == "gecd"); // the last row moves to the first hole, then the next last
  CHECK(batch.after("cd") == "dc");
  CHECK(batch.after("") == "");
  CHECK(batch.after("zy") == "zy");
}

TEST_CASE("more holes than newcomers, in one iteration") {
  Batch batch;
  CHECK(batch.after("abcdefgh") == "abcdefgh");
  // Rows of a, c, e and g are free: x takes the first, h the second, then f would move down: its row is after d's.
  CHECK(batch.after("bdfhx") == "xbhdf");
}

TEST_CASE("a new request in a slot is a newcomer; one that looks twice changes nothing") {
  Batch batch;
  CHECK(batch.after("abc") == "abc");
  batch.requests[0].id = RequestId{batch.next_id++}; // a ended, and another request has its slot
  CHECK(batch.after("bca") == "abc");                // it takes the free row, the first
  CHECK(batch.after("bca") == "abc");
}

TEST_CASE("contexts are those of the decodes, with the fresh token") {
  Batch batch;
  batch.requests[0].computed = Tokens{10}; // a: a decode
  batch.requests[0].spec.prompt = Tokens{11};
  batch.requests[1].computed = Tokens{20}; // b: the last token of a prompt of 22 is not its only pending one
  batch.requests[1].spec.prompt = Tokens{22};
  batch.requests[2].computed = Tokens{30};
  batch.requests[2].spec.prompt = Tokens{31};
  CHECK(batch.after("cab") == "cab");
  View view;
  view.rows = batch.requests;
  std::vector<Claim> claims(3);
  for (std::size_t i = 0; i < 3; ++i) {
    claims[i].slot = Slot{static_cast<std::uint32_t>(i)};
    claims[i].tokens = Tokens{1};
  }
  std::vector<Tokens> contexts;
  batch.rows.contexts(view, claims, contexts);
  CHECK(contexts == std::vector<Tokens>{Tokens{31}, Tokens{11}});
}
