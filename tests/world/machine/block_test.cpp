// SPDX-License-Identifier: Apache-2.0
// The life of a block: a walk through the table of its transitions.
#include "sluice/world/machine/block.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {
namespace {

constexpr std::string_view block_event_names[block_event_count] = {
    "take",       "fetch", "arrived", "pass",         "keep",    "use",   "append",       "evict",
    "copy ahead", "send",  "sent",    "give up copy", "release", "share", "take on host", "append on host"};

/// Every state that some order of events leads to, from `nowhere` on.
std::vector<BlockState> reachable_states() {
  std::vector<bool> seen(BlockState::count);
  std::vector<BlockState> states{{}};
  seen[BlockState{}.number()] = true;
  for (std::size_t i = 0; i < states.size(); ++i)
    for (std::size_t event = 0; event < block_event_count; ++event)
      if (const auto next = after(states[i], static_cast<BlockEvent>(event)); next && !seen[next->number()]) {
        seen[next->number()] = true;
        states.push_back(*next);
      }
  return states;
}

std::string block_words(std::string_view letters, std::string_view all, const std::vector<std::string>& names) {
  std::string text;
  for (const char letter : letters) {
    if (!text.empty()) text += ", ";
    text += letter == '=' ? "same" : names[all.find(letter)];
  }
  return text;
}
/// The table as docs/machine.md has it.
std::string printed_transitions() {
  const std::vector<std::string> places{"nowhere", "device", "ahead", "both", "host"},
      intents{"stays", "passes", "leaves"}, transfers{"none", "queued", "sending", "arriving"};
  std::string text = "| event | place | intent | transfer | then | |\n|---|---|---|---|---|---|\n";
  for (const BlockTransition& row : block_transitions) {
    const auto part = [&](std::size_t i, std::string_view all, const std::vector<std::string>& names) {
      return block_words(row.to.substr(i, 1), all, names);
    };
    text += "| " + std::string{block_event_names[static_cast<std::size_t>(row.event)]} + " | " +
            block_words(row.places, detail::block_place_letters, places) + " | " +
            block_words(row.intents, detail::block_intent_letters, intents) + " | " +
            block_words(row.transfers, detail::block_transfer_letters, transfers) + " | " +
            part(0, detail::block_place_letters, places) + ", " + part(1, detail::block_intent_letters, intents) +
            ", " + part(2, detail::block_transfer_letters, transfers) + " | " + std::string{row.why} + " |\n";
  }
  return text;
}

} // namespace

TEST_CASE("each event leads from a block's state to one other, and every row is the way of some block") {
  const std::vector<BlockState> states = reachable_states();
  CHECK(states.size() == 16);
  for (const BlockTransition& row : block_transitions) {
    int used = 0;
    for (const BlockState state : states) used += detail::matches(row, state) ? 1 : 0;
    CHECK_MESSAGE(used > 0, block_event_names[static_cast<std::size_t>(row.event)], " ", row.places, row.intents,
                  row.transfers);
  }
  for (const BlockState state : states)
    for (std::size_t event = 0; event < block_event_count; ++event) {
      int rows = 0;
      for (const BlockTransition& row : block_transitions)
        rows += row.event == static_cast<BlockEvent>(event) && detail::matches(row, state) ? 1 : 0;
      CHECK(rows <= 1);
    }
}

TEST_CASE("a block in a transfer is neither written, nor moved, nor freed before the copy ends") {
  for (const BlockState state : reachable_states()) {
    CAPTURE(state.number());
    CHECK((state.on_device() || state.transfer == BlockTransfer::none)); // only a device block is in a transfer
    CHECK((state.transfer != BlockTransfer::arriving || state.place == BlockPlace::both));
    CHECK((state.on_device() || state.intent == BlockIntent::stays)); // nothing is meant for what is not there
    CHECK((!state.writable() || state.readable()));
    if (state.exists()) CHECK(after(state, BlockEvent::release) == BlockState{});
    for (std::size_t i = 0; i < block_event_count; ++i) {
      const auto event = static_cast<BlockEvent>(i);
      const auto next = after(state, event);
      if (!next) continue;
      if (event == BlockEvent::append) CHECK(next->writable());
      if (event == BlockEvent::fetch) CHECK(state.place == BlockPlace::host);
      if (!state.in_transfer() || event == BlockEvent::release) continue;
      const bool ends = event == (state.transfer == BlockTransfer::sending ? BlockEvent::sent : BlockEvent::arrived);
      CHECK((ends || (next->place == state.place && next->transfer == state.transfer)));
    }
  }
}

TEST_CASE("a block that leaves is on the host once the link has done its work") {
  for (BlockState state : reachable_states()) {
    if (state.intent != BlockIntent::leaves) continue;
    for (const BlockEvent event : {BlockEvent::send, BlockEvent::sent, BlockEvent::arrived})
      state = after(state, event).value_or(state);
    CHECK(state == BlockState{BlockPlace::host});
  }
}

TEST_CASE("docs/machine.md has the table of a block's transitions") {
  std::ifstream file("docs/machine.md");
  std::stringstream page;
  page << file.rdbuf();
  CHECK_MESSAGE(page.str().find(printed_transitions()) != std::string::npos, "the page should have:\n",
                printed_transitions());
}

} // namespace sluice
