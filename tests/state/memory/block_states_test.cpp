// SPDX-License-Identifier: Apache-2.0
// BlockStates: for any order of calls, no block is source and destination at once, nothing is written while it is sent,
// arriving bytes belong to no other request, and both memories' counts are exact.
#include "sluice/core/random.hpp"
#include "sluice/state/memory/block_states.hpp"
#include "sluice/state/memory/ledger.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

using namespace sluice;

namespace {

using Block = BlockStates::Block;

struct Transfer {
  bool out;
  Block device;
  Block host;
  std::uint64_t bytes; ///< its content when the transfer started
};

} // namespace

TEST_CASE("no block is ever source and destination at once, in a million random operations") {
  constexpr std::size_t device_blocks = 24;
  constexpr std::size_t host_blocks = 30;
  BlockStates blocks(device_blocks, host_blocks);
  Random random(73);
  std::uint64_t next = 1;
  std::vector<std::uint64_t> on_device(device_blocks, 0), on_host(host_blocks, 0); // the content of each block
  std::vector<Transfer> moving;
  std::set<Block> alone;                  // host blocks that hold the only copy
  std::map<Block, std::uint64_t> promise; // their required content
  Ledger ledger{LayerBlocks{device_blocks}, LayerBlocks{host_blocks}};
  std::map<int, std::int64_t> done;
  const auto in_flight = [&](Block block) {
    return std::find_if(moving.begin(), moving.end(), [&](const Transfer& t) { return t.device == block; });
  };
  const auto left = [&](Block block, std::size_t host) { // its request stopped: the host has all of it
    alone.insert(host);
    promise[host] = on_device[block];
  };
  std::set<Block> leaving;
  for (int step = 0; step < 1'000'000; ++step) {
    const Block block = random.below(device_blocks);
    const int operation = static_cast<int>(random.below(9));
    const BlockState before = blocks.state(block);
    bool did = false;
    switch (operation) {
    case 0:
      if (const auto taken = blocks.take()) {
        did = true;
        REQUIRE(in_flight(*taken) == moving.end());
        on_device[*taken] = next++;
      }
      break;
    case 1: // another token, only where allowed
      if (before == BlockState::filling) {
        REQUIRE(in_flight(block) == moving.end());
        on_device[block] = next++;
      }
      break;
    case 2:
      did = blocks.seal(block);
      CHECK(did == (before == BlockState::filling));
      break;
    case 3:
    case 4: {
      const bool leaves = operation == 4;
      const auto copy = blocks.copy_of(block);
      did = blocks.send(block, leaves);
      if (!did) break;
      if (before == BlockState::clean) { // at once
        CHECK(blocks.state(block) == BlockState::empty);
        left(block, *copy);
      } else if (before == BlockState::sending) {
        leaving.insert(block);
      } else {
        moving.push_back({true, block, *blocks.copy_of(block), on_device[block]});
        if (leaves) leaving.insert(block);
      }
      break;
    }
    case 5: { // a transfer ends
      if (moving.empty()) break;
      const std::size_t which = random.below(moving.size());
      const Transfer transfer = moving[which];
      const bool full = random.below(4) != 0;
      did = transfer.out ? blocks.sent(transfer.device) : blocks.arrived(transfer.device, full);
      REQUIRE(did);
      moving.erase(moving.begin() + static_cast<std::ptrdiff_t>(which));
      if (transfer.out) {
        CHECK_MESSAGE(on_device[transfer.device] == transfer.bytes, "no block that is sent is written meanwhile");
        on_host[transfer.host] = transfer.bytes;
        if (leaving.count(transfer.device) == 1 && blocks.host_used() > 0 &&
            blocks.state(transfer.device) == BlockState::empty)
          left(transfer.device, transfer.host);
        leaving.erase(transfer.device);
      } else {
        CHECK_MESSAGE(on_host[transfer.host] == transfer.bytes, "no block that is fetched is overwritten meanwhile");
        on_device[transfer.device] = transfer.bytes;
      }
      break;
    }
    case 6: { // a request returns
      if (alone.empty()) break;
      auto host = alone.begin();
      std::advance(host, static_cast<std::ptrdiff_t>(random.below(alone.size())));
      const auto fetched = blocks.fetch(*host);
      if (!fetched) break;
      did = true;
      REQUIRE(on_host[*host] == promise[*host]);
      REQUIRE(in_flight(*fetched) == moving.end());
      moving.push_back({false, *fetched, *host, on_host[*host]});
      alone.erase(host);
      break;
    }
    case 7:
      did = random.below(2) == 0 ? blocks.give_up_copy(block) : false;
      if (did) CHECK(before == BlockState::clean);
      break;
    case 8: // a request ends
      if (random.below(3) == 0 && !alone.empty()) {
        did = blocks.free_host(*alone.begin());
        REQUIRE(did);
        alone.erase(alone.begin());
      } else if (random.below(4) == 0) {
        did = blocks.free(block);
        if (before == BlockState::sending) leaving.erase(block); // its source belongs to no request
        CHECK(did == (before != BlockState::empty));
      }
      break;
    default:
      break;
    }
    done[operation] += did ? 1 : 0;

    // Counted again, from the transfers and the only copies.
    bool sound = true;
    std::set<Block> device_moving, host_moving;
    std::size_t host = alone.size();
    for (const Transfer& transfer : moving) {
      sound &= device_moving.insert(transfer.device).second; // in one transfer only: never source and destination
      sound &= host_moving.insert(transfer.host).second;
      sound &= alone.count(transfer.host) == 0;
      sound &= blocks.state(transfer.device) == (transfer.out ? BlockState::sending : BlockState::arriving);
      sound &= blocks.host_written(transfer.host) == transfer.out;
      sound &= blocks.host_read(transfer.host) == !transfer.out;
    }
    std::size_t device = 0;
    for (Block each = 0; each < device_blocks; ++each) {
      const BlockState state = blocks.state(each);
      device += state != BlockState::empty;
      host += blocks.copy_of(each).has_value();
      sound &= (state == BlockState::sending || state == BlockState::arriving) == (device_moving.count(each) == 1);
      sound &= blocks.copy_of(each).has_value() ==
               (state == BlockState::clean || state == BlockState::sending || state == BlockState::arriving);
      if (state == BlockState::clean) sound &= on_host[*blocks.copy_of(each)] == on_device[each];
    }
    REQUIRE(sound);
    ledger.replace({ledger.device().used(), ledger.host().used()},
                   {LayerBlocks{static_cast<std::int64_t>(device)}, LayerBlocks{static_cast<std::int64_t>(host)}});
    REQUIRE(blocks.device_used() == device);
    REQUIRE(blocks.host_used() == host);
  }
  for (int operation : {0, 2, 3, 4, 5, 6, 7, 8}) {
    CAPTURE(operation);
    CHECK(done[operation] > 1000);
  }
}

TEST_CASE("a clean block is freed at once, a block without a copy after it has been sent") {
  BlockStates blocks(2, 2);
  const Block eager = *blocks.take();
  const Block late = *blocks.take();
  CHECK(blocks.seal(eager));
  CHECK(blocks.send(eager, false));
  CHECK_FALSE(blocks.send(eager, false)); // not twice
  CHECK_FALSE(blocks.give_up_copy(eager));
  CHECK(blocks.sent(eager));
  CHECK(blocks.state(eager) == BlockState::clean);
  const Block host = *blocks.copy_of(eager);
  CHECK(blocks.send(eager, true));
  CHECK(blocks.state(eager) == BlockState::empty);
  CHECK(blocks.send(late, true)); // the last blocks of a request that stops
  CHECK(blocks.state(late) == BlockState::sending);
  CHECK(blocks.host_used() == 2);
  const Block back = *blocks.fetch(host); // in parallel, into the block that was freed at once
  CHECK(back == eager);
  CHECK(blocks.sent(late));
  CHECK(blocks.state(late) == BlockState::empty);
  CHECK(blocks.arrived(back, true));
  CHECK(blocks.copy_of(back) == host);
}
