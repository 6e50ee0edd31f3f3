// SPDX-License-Identifier: Apache-2.0
// BlockTable: the blocks of KV or hidden states of one sequence and layer, and everything that can happen to them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

/// Where a block's content is.
enum class BlockPlace : std::uint8_t {
  nowhere,
  device, ///< only on the device
  ahead,  ///< on the device; the host has a copy without the newest tokens
  both,   ///< on the device, and an equal copy on the host
  host,   ///< only on the host
};
/// What is to become of a block that is on the device.
enum class BlockIntent : std::uint8_t {
  stays,  ///< it stays there
  passes, ///< it is there only while one layer of one iteration computes
  leaves, ///< it leaves as soon as the host has all of it
};
/// What the link does with a block.
enum class BlockTransfer : std::uint8_t {
  none,
  queued,   ///< waits to be sent to the host
  sending,  ///< the source of a copy: neither written nor sent again
  arriving, ///< the destination of a copy: not readable yet
};

/// The state of a block. Moves take time, so an eviction and a fetch have two steps each. No state lets a block be
/// source and destination at once, so the link's two directions need no other coordination (SuperInfer, Fig. 13: eager
/// block rotation).
struct BlockState {
  BlockPlace place = BlockPlace::nowhere;
  BlockIntent intent = BlockIntent::stays;
  BlockTransfer transfer = BlockTransfer::none;

  static constexpr std::size_t count = std::size_t{5} * 4 * 4; ///< numbers, not all of which are states
  [[nodiscard]] constexpr std::size_t number() const {
    return static_cast<std::size_t>(place) * 16 + static_cast<std::size_t>(intent) * 4 +
           static_cast<std::size_t>(transfer);
  }
  [[nodiscard]] static constexpr BlockState of_number(std::size_t number) {
    return {static_cast<BlockPlace>(number / 16), static_cast<BlockIntent>(number / 4 % 4),
            static_cast<BlockTransfer>(number % 4)};
  }

  [[nodiscard]] constexpr bool exists() const { return place != BlockPlace::nowhere; }
  [[nodiscard]] constexpr bool on_device() const { return exists() && place != BlockPlace::host; }
  /// Whether a place on the host is taken for it.
  [[nodiscard]] constexpr bool has_host_place() const {
    return place >= BlockPlace::ahead || transfer == BlockTransfer::sending;
  }
  [[nodiscard]] constexpr bool in_transfer() const { return transfer >= BlockTransfer::sending; }
  [[nodiscard]] constexpr bool readable() const { return on_device() && transfer != BlockTransfer::arriving; }
  [[nodiscard]] constexpr bool writable() const {
    return (place == BlockPlace::device || place == BlockPlace::ahead) && transfer == BlockTransfer::none;
  }
  friend constexpr bool operator==(const BlockState&, const BlockState&) = default;
};

/// What can happen to a block.
enum class BlockEvent : std::uint8_t {
  take,           ///< it gets a device block to be filled
  fetch,          ///< a copy to the device begins
  arrived,        ///< that copy has ended
  pass,           ///< it is on the device only for a layer
  keep,           ///< the plan wants it on the device
  use,            ///< the plan wants it on the host, but a layer of this iteration reads it first
  append,         ///< a layer writes more tokens to it
  evict,          ///< the plan wants it on the host
  copy_ahead,     ///< the plan wants a copy of it on the host
  send,           ///< a copy to the host begins
  sent,           ///< that copy has ended
  give_up_copy,   ///< the plan wants no copy on the host
  release,        ///< nobody needs it; if it is in a transfer, its memory is free when that ends
  share,          ///< the host has its content already, in a full block that others hold too
  take_on_host,   ///< it gets a host block to be filled there
  append_on_host, ///< the host's lane writes more tokens to it
};
inline constexpr std::size_t block_event_count = 16;

/// In the states that match `from`, `event` leads to `to`. Letters: place `-` nowhere, `d` device, `a` ahead, `b` both,
/// `h` host; intent `s` stays, `p` passes, `l` leaves; transfer `-` none, `q` queued, `s` sending, `a` arriving. In
/// `from`, one word of possible letters each; in `to`, `=` keeps what was.
struct BlockTransition {
  BlockEvent event;
  std::string_view places, intents, transfers;
  std::string_view to; ///< place, intent, transfer
  std::string_view why;
};

/// Every transition there is; all others are refused. A test walks through the table
/// (tests/world/machine/block_test.cpp) and prints it into docs/machine.md.
inline constexpr std::array block_transitions{
    BlockTransition{BlockEvent::take, "-", "s", "-", "ds-", "a layer fills it"},
    BlockTransition{BlockEvent::fetch, "h", "s", "-", "bsa", "its place on the host becomes its copy"},
    BlockTransition{BlockEvent::arrived, "b", "sp", "a", "==-", "it equals its copy"},
    BlockTransition{BlockEvent::arrived, "b", "l", "a", "hs-", "meanwhile unwanted: only its copy remains"},
    BlockTransition{BlockEvent::pass, "dab", "sp", "-", "=p=", ""},
    BlockTransition{BlockEvent::pass, "b", "sp", "a", "=p=", ""},
    BlockTransition{BlockEvent::keep, "d", "sp", "-", "=s=", ""},
    BlockTransition{BlockEvent::keep, "d", "s", "qs", "===", "a copy for the host goes on"},
    BlockTransition{BlockEvent::keep, "d", "l", "q", "=s-", "the eviction is cancelled"},
    BlockTransition{BlockEvent::keep, "a", "pl", "-q", "ds-", "its copy, without the newest tokens, is useless"},
    BlockTransition{BlockEvent::keep, "b", "sp", "-", "=s=", ""},
    BlockTransition{BlockEvent::keep, "b", "spl", "a", "=s=", ""},
    BlockTransition{BlockEvent::use, "da", "l", "q", "=p-", "it leaves after that layer"},
    BlockTransition{BlockEvent::use, "b", "l", "a", "=p=", "it leaves after that layer"},
    BlockTransition{BlockEvent::append, "d", "sp", "-", "===", ""},
    BlockTransition{BlockEvent::append, "a", "p", "-", "===", ""},
    BlockTransition{BlockEvent::append, "b", "p", "-", "a==", "later only the new tokens are sent"},
    BlockTransition{BlockEvent::append, "da", "l", "q", "=p-", "hidden states: sent together with the new ones"},
    BlockTransition{BlockEvent::evict, "da", "sp", "-", "=lq", ""},
    BlockTransition{BlockEvent::evict, "d", "s", "qs", "=l=", "the copy for the host becomes the only one"},
    BlockTransition{BlockEvent::evict, "b", "sp", "a", "=l=", "it leaves when it has arrived"},
    BlockTransition{BlockEvent::evict, "b", "sp", "-", "hs-", "the host has all of it: it leaves at once"},
    BlockTransition{BlockEvent::copy_ahead, "d", "s", "-", "==q", "full blocks only"},
    BlockTransition{BlockEvent::send, "d", "s", "q", "==s", ""},
    BlockTransition{BlockEvent::send, "da", "l", "q", "==s", ""},
    BlockTransition{BlockEvent::sent, "d", "s", "s", "b=-", ""},
    BlockTransition{BlockEvent::sent, "da", "l", "s", "hs-", ""},
    BlockTransition{BlockEvent::give_up_copy, "b", "sp", "-", "d==", ""},
    BlockTransition{BlockEvent::release, "h", "s", "-", "-s-", ""},
    BlockTransition{BlockEvent::release, "dab", "spl", "-qsa", "-s-", ""},
    BlockTransition{BlockEvent::share, "-", "s", "-", "hs-", "a request finds it in the host tier"},
    BlockTransition{BlockEvent::take_on_host, "-", "s", "-", "hs-", "the host's lane fills it"},
    BlockTransition{BlockEvent::append_on_host, "h", "s", "-", "===", "the host attends the new token there"},
};

namespace detail {

inline constexpr std::string_view block_place_letters = "-dabh";
inline constexpr std::string_view block_intent_letters = "spl";
inline constexpr std::string_view block_transfer_letters = "-qsa";
inline constexpr std::uint8_t no_transition = 255;

[[nodiscard]] constexpr bool matches(const BlockTransition& row, BlockState state) {
  const auto has = [](std::string_view letters, char letter) { return letters.find(letter) != letters.npos; };
  return static_cast<std::size_t>(state.intent) < block_intent_letters.size() &&
         has(row.places, block_place_letters[static_cast<std::size_t>(state.place)]) &&
         has(row.intents, block_intent_letters[static_cast<std::size_t>(state.intent)]) &&
         has(row.transfers, block_transfer_letters[static_cast<std::size_t>(state.transfer)]);
}
[[nodiscard]] constexpr BlockState result(const BlockTransition& row, BlockState state) {
  if (row.to[0] != '=') state.place = static_cast<BlockPlace>(block_place_letters.find(row.to[0]));
  if (row.to[1] != '=') state.intent = static_cast<BlockIntent>(block_intent_letters.find(row.to[1]));
  if (row.to[2] != '=') state.transfer = static_cast<BlockTransfer>(block_transfer_letters.find(row.to[2]));
  return state;
}
/// By event and state: the number of the state that follows.
inline constexpr auto block_steps = [] {
  std::array<std::array<std::uint8_t, BlockState::count>, block_event_count> steps{};
  for (auto& of_event : steps)
    for (std::uint8_t& step : of_event) step = no_transition;
  for (const BlockTransition& row : block_transitions)
    for (std::size_t number = 0; number < BlockState::count; ++number)
      if (matches(row, BlockState::of_number(number)))
        steps[static_cast<std::size_t>(row.event)][number] =
            static_cast<std::uint8_t>(result(row, BlockState::of_number(number)).number());
  return steps;
}();

} // namespace detail

/// The state that follows; nothing if the table has no such transition.
[[nodiscard]] constexpr std::optional<BlockState> after(BlockState state, BlockEvent event) {
  const std::uint8_t next = detail::block_steps[static_cast<std::size_t>(event)][state.number()];
  if (next == detail::no_transition) return std::nullopt;
  return BlockState::of_number(next);
}

/// An entry of a block table: neighbouring blocks of one sequence and layer that are in one state, and that lie side by
/// side in each memory that has them.
struct BlockRun {
  static constexpr std::int32_t nowhere = -1;

  std::int32_t first = 0; ///< the number of its first block in the table
  std::int32_t count = 1;
  std::int32_t device = nowhere; ///< the first of its device blocks, if it has any
  std::int32_t host = nowhere;   ///< the first of its host blocks, if it has any
  std::uint16_t tokens = 0;      ///< that each block holds something of
  std::uint16_t copied = 0;      ///< how many of them the host's copy has
  BlockState state{};
  bool awaited : 1 = false;  ///< a layer of this iteration needs it, and it has not arrived
  bool sooner : 1 = false;   ///< the first layer waits for it too
  bool restores : 1 = false; ///< hidden states: a layer of this iteration starts from them

  [[nodiscard]] std::int32_t end() const { return first + count; }
  [[nodiscard]] bool exists() const { return state.exists(); }
  [[nodiscard]] bool on_device() const { return state.on_device(); }
  [[nodiscard]] bool on_host() const { return state.place == BlockPlace::host; } ///< only there
  [[nodiscard]] bool leaves() const { return state.intent == BlockIntent::leaves; }
  [[nodiscard]] bool passes() const { return state.intent == BlockIntent::passes; }
  /// Whether it has device blocks, perhaps still arriving, that it is not to leave.
  [[nodiscard]] bool keeps_device() const { return on_device() && !leaves(); }
  [[nodiscard]] bool queued() const { return state.transfer == BlockTransfer::queued; }
  /// Whether the device can give its blocks back at once.
  [[nodiscard]] bool clean() const { return state.place == BlockPlace::both && state.transfer == BlockTransfer::none; }

  /// The run's part from `block` on, of which the run keeps the rest.
  [[nodiscard]] BlockRun split(std::int32_t block) {
    BlockRun rest = *this;
    rest.first = block;
    rest.count = end() - block;
    count = block - first;
    if (rest.device != nowhere) rest.device += count;
    if (rest.host != nowhere) rest.host += count;
    return rest;
  }
  /// Whether the run and the one behind it are one. (Runs in a transfer stay apart, since their copies end one by one.)
  [[nodiscard]] bool joins(const BlockRun& next) const {
    const auto beside = [this](std::int32_t one, std::int32_t other) {
      return other == (one == nowhere ? nowhere : one + count);
    };
    return state == next.state && !state.in_transfer() && tokens == next.tokens && copied == next.copied &&
           awaited == next.awaited && sooner == next.sooner && restores == next.restores &&
           beside(device, next.device) && beside(host, next.host);
  }
};
static_assert(sizeof(BlockRun) == 24, "a step walks through the tables of moving blocks");

/// The block table of a sequence's layer, as runs of blocks: whatever happens to a run costs the same for one block and
/// for hundreds.
class BlockTable {
 public:
  [[nodiscard]] std::int64_t size() const { return runs_.empty() ? 0 : runs_.back().end(); }
  [[nodiscard]] bool empty() const { return runs_.empty(); }
  /// Adds blocks that are nowhere. Space for as many runs is reserved now, so that no later split allocates.
  void grow(std::int64_t blocks) {
    const std::int64_t before = size();
    if (blocks <= before) return;
    runs_.reserve(std::bit_ceil(static_cast<std::size_t>(blocks)));
    runs_.push_back({static_cast<std::int32_t>(before), static_cast<std::int32_t>(blocks - before)});
  }
  /// Drops the blocks from this one on, which are nowhere.
  void shrink(std::int64_t blocks) {
    const std::size_t left = cut(blocks);
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(left), runs_.end());
  }

  [[nodiscard]] std::span<BlockRun> runs() { return runs_; }
  [[nodiscard]] std::span<const BlockRun> runs() const { return runs_; }
  [[nodiscard]] BlockRun& operator[](std::size_t run) { return runs_[run]; }
  /// The number of the run that has the block; of the end, if the table has no such block.
  [[nodiscard]] std::size_t find(std::int64_t block) const {
    std::size_t first = 0, last = runs_.size(); // the first run that ends behind the block
    while (first < last) {
      const std::size_t middle = (first + last) / 2;
      if (runs_[middle].end() <= block)
        first = middle + 1;
      else
        last = middle;
    }
    return first;
  }
  /// Lets a run begin at the block, and returns the run's number.
  std::size_t cut(std::int64_t block) {
    if (block <= 0) return 0;
    if (block >= size()) return runs_.size();
    const std::size_t run = find(block);
    if (runs_[run].first >= block) return run;
    const BlockRun rest = runs_[run].split(static_cast<std::int32_t>(block));
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(run) + 1, rest);
    return run + 1;
  }
  /// The block as a run of its own. A later cut moves it.
  [[nodiscard]] BlockRun& one(std::int64_t block) {
    const auto at = static_cast<std::size_t>(block);
    if (at < runs_.size() && runs_[at].first == block && runs_[at].count == 1) return runs_[at];
    const std::size_t run = cut(block);
    cut(block + 1);
    return runs_[run];
  }
  /// Calls `visit(run)` for the blocks `from` .. `to` - 1. It may change the run, and must not cut the table.
  template <class Visit>
  void each(std::int64_t from, std::int64_t to, const Visit& visit) {
    if (from >= to) return;
    const std::size_t first = cut(from), end = cut(to);
    for (std::size_t run = first; run < end; ++run) visit(runs_[run]);
  }
  /// Joins neighbouring runs that have become alike.
  void join() {
    std::size_t last = 0;
    for (std::size_t run = 1; run < runs_.size(); ++run)
      if (runs_[last].joins(runs_[run]))
        runs_[last].count += runs_[run].count;
      else
        runs_[++last] = runs_[run];
    if (!runs_.empty()) runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(last) + 1, runs_.end());
  }

 private:
  std::vector<BlockRun> runs_; ///< in order, without a gap
};

} // namespace sluice
