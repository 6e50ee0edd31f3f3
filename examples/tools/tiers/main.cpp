// SPDX-License-Identifier: Apache-2.0
// sluice-tiers: how much of a workload's prompts a tier of memory would find, without engine and time.
//
// Goals of this program: size a host memory or a pool for a trace in a second, before any simulation; show what the
// best rule for evictions could reach; and print the figures of docs/tiers.md. Requests come one after the other, each
// instantaneous, so nothing is late and everything written is found: the share is what is possible, not what a system
// reaches.
#include "sluice/report/number_text.hpp"
#include "sluice/state/memory/belady.hpp"
#include "sluice/state/memory/tier_store.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"

#include "shared/flags.hpp"
#include "shared/trace_flags.hpp"
#include "shared/whole_output.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

struct Options : TraceOptions {
  std::string generate;
  std::uint64_t seed = 1;
  std::optional<std::int64_t> limit;
  std::int64_t block = 512, device = 0, host = 0, engines = 1, chunk = 256;
  std::vector<std::int64_t> capacity{1'000, 10'000, 50'000};
};

/// A request with its tokens in memory once it is answered, and how many it looks up.
struct Use {
  std::vector<ContentPiece> content; ///< up to the last token with KV: the answer's last one has none
  Tokens prompt{0};
};

/// `taken_for`: how a trace was read.
Expected<std::vector<Use>> read_uses(const Options& options, std::string& taken_for) {
  ReadOptions read;
  read.limit = options.limit;
  read.open_sessions = true;
  Expected<Trace> trace = [&]() -> Expected<Trace> {
    if (options.trace.empty())
      return open_generator(options.generate.empty() ? "chat" : options.generate, options.seed, read);
    const Expected<TraceFile> file = find_trace(options);
    if (!file) return file.error();
    return open_trace(*file, read, Seconds{1});
  }();
  if (!trace) return trace.error();
  std::vector<Use> uses;
  std::vector<RequestSpec> requests;
  bool known = false;
  for (;;) {
    const Expected<std::optional<RequestSpec>> request = trace->next();
    if (!request) return request.error();
    if (!*request) break;
    Use use{{}, (*request)->prompt};
    Tokens left = (*request)->prompt + (*request)->output - Tokens{1};
    for (ContentPiece piece : trace->content()) {
      piece.tokens = std::min(piece.tokens, left);
      left -= piece.tokens;
      use.content.push_back(piece);
    }
    known = known || !use.content.empty();
    requests.push_back(**request);
    uses.push_back(std::move(use));
  }
  if (!known)
    return Error{ErrorCode::bad_input, options.trace.empty() ? "--generate" : "--trace",
                 "this workload does not say what its requests contain",
                 "a trace with hash_ids or token ids, or generated sessions"};
  taken_for = taken_for_text(trace->workload(), requests);
  return uses;
}

std::vector<std::vector<BlockKey>> keys_of(const std::vector<Use>& uses, Tokens block) {
  std::vector<std::vector<BlockKey>> keys(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) block_keys(uses[i].content, block, keys[i]);
  return keys;
}
/// How many different blocks there are. A larger tier finds what one of this size does, and its store only takes more
/// memory.
std::int64_t different_blocks(const std::vector<std::vector<BlockKey>>& keys) {
  std::unordered_set<std::uint64_t> different;
  for (const std::vector<BlockKey>& of : keys)
    for (const BlockKey key : of) different.insert(static_cast<std::uint64_t>(key));
  return static_cast<std::int64_t>(different.size());
}
/// The blocks that a prompt looks up: the last token is always computed.
std::size_t looked_up(Tokens prompt, Tokens block, std::size_t known) {
  return std::min(static_cast<std::size_t>((prompt.count() - 1) / block.count()), known);
}
std::string share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? fmt::format("{:.2f}", 100.0 * static_cast<double>(part) / static_cast<double>(whole)) : "-";
}

/// One tier: a row per rule, a column per capacity.
std::string one_tier(const Options& options, const std::vector<Use>& uses,
                     const std::vector<std::vector<BlockKey>>& keys) {
  const Tokens block{options.block};
  std::int64_t lookups = 0, blocks = 0;
  const std::int64_t different = different_blocks(keys);
  std::vector<PrefixUse> all;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    all.push_back({keys[i], looked_up(uses[i].prompt, block, keys[i].size())});
    lookups += (uses[i].prompt.count() - 1) / block.count();
    blocks += static_cast<std::int64_t>(keys[i].size());
  }
  std::vector<TextTable::Column> columns{{"", "rule"}};
  std::vector<TokenBlocks> capacities;
  for (const std::int64_t capacity : options.capacity) {
    capacities.emplace_back(std::min(capacity, different));
    columns.push_back({"found by a tier of ... blocks, %", fmt::format("{}", capacity)});
  }
  capacities.emplace_back(different);
  columns.push_back({"found by a tier of ... blocks, %", "all"});
  TextTable table(columns);
  for (const Replacement rule : {Replacement::least_recent, Replacement::least_frequent, Replacement::adaptive}) {
    std::vector<std::string> row{std::string{name(rule)}};
    for (const TokenBlocks capacity : capacities) {
      TierStore store(capacity, rule);
      std::size_t hits = 0;
      for (const PrefixUse& use : all) {
        hits += store.find(use.keys.first(use.looked_up));
        store.store(use.keys);
      }
      row.push_back(share(static_cast<std::int64_t>(hits), lookups));
    }
    table.row(std::move(row));
  }
  std::vector<std::string> row{"MIN"};
  for (const TokenBlocks capacity : capacities) row.push_back(share(belady_hits(all, capacity), lookups));
  table.row(std::move(row));
  return fmt::format("{} requests look up {} blocks of {} tokens; they have {} blocks, {} of them different.\n\n",
                     uses.size(), lookups, block.count(), blocks, different) +
         table.text();
}

/// Device and host: a row per way to copy.
std::string two_tiers(const Options& options, const std::vector<Use>& uses,
                      const std::vector<std::vector<BlockKey>>& keys) {
  const std::int64_t different = different_blocks(keys);
  const TokenBlocks device{std::min(options.device, different)}, host{std::min(options.host, different)};
  TextTable table({{"", "copies"}, {"found, %", "device"}, {"found, %", "host"}, {"", "blocks written"}});
  for (const HostCopies copies : {HostCopies::inclusive, HostCopies::write_back, HostCopies::exclusive}) {
    UntimedTiers tiers(device, host, copies);
    std::int64_t lookups = 0;
    for (std::size_t i = 0; i < uses.size(); ++i) {
      tiers.serve(keys[i], looked_up(uses[i].prompt, Tokens{options.block}, keys[i].size()));
      lookups += (uses[i].prompt.count() - 1) / options.block;
    }
    table.row({std::string{name(copies)}, share(tiers.device_hits(), lookups), share(tiers.host_hits(), lookups),
               fmt::format("{}", tiers.written())});
  }
  return fmt::format("A device of {} blocks and a host of {}, both LRU:\n\n", options.device, options.host) +
         table.text();
}

/// Engines that serve the requests in turn, each with a device that keeps everything, and one pool of larger chunks.
std::string shared_pool(const Options& options, const std::vector<Use>& uses,
                        const std::vector<std::vector<BlockKey>>& keys) {
  const Tokens block{options.block}, chunk{options.chunk};
  const std::vector<std::vector<BlockKey>> chunks = keys_of(uses, chunk);
  std::vector<std::unordered_set<std::uint64_t>> local(static_cast<std::size_t>(options.engines));
  std::unordered_set<std::uint64_t> pool;
  std::vector<std::int64_t> queried(local.size()), found(local.size()), external(local.size());
  const auto prefix = [](const auto& held, std::span<const BlockKey> wanted) {
    std::size_t count = 0;
    while (count < wanted.size() && held.contains(static_cast<std::uint64_t>(wanted[count]))) ++count;
    return static_cast<std::int64_t>(count);
  };
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::size_t engine = i % local.size();
    const std::int64_t here = block.count() * prefix(local[engine], std::span<const BlockKey>(keys[i]).first(looked_up(
                                                                        uses[i].prompt, block, keys[i].size())));
    const auto whole = static_cast<std::size_t>(uses[i].prompt.count() / chunk.count());
    const std::int64_t there =
        chunk.count() * prefix(pool, std::span<const BlockKey>(chunks[i]).first(std::min(whole, chunks[i].size())));
    queried[engine] += uses[i].prompt.count();
    found[engine] += here;
    external[engine] += std::max<std::int64_t>(0, std::min(there, uses[i].prompt.count() - 1) - here);
    for (const BlockKey key : keys[i]) local[engine].insert(static_cast<std::uint64_t>(key));
    for (const BlockKey key : chunks[i]) pool.insert(static_cast<std::uint64_t>(key));
  }
  TextTable table(
      {{"", "engine"}, {"tokens", "queried"}, {"tokens", "found on the device"}, {"tokens", "in the pool"}});
  for (std::size_t engine = 0; engine < local.size(); ++engine)
    table.row({fmt::format("{}", engine + 1), fmt::format("{}", queried[engine]), fmt::format("{}", found[engine]),
               local.size() == 1 ? "-" : fmt::format("{}", external[engine])});
  return fmt::format(
             "Engines that take the requests in turn and keep every block of {} tokens, and a pool of all their "
             "chunks of {}, {} in the end:\n\n",
             block.count(), chunk.count(), pool.size()) +
         table.text();
}

int program(int argc, char** argv) {
  Options options;
  Flags flags("sluice-tiers",
              "Says how much of a workload's prompts a memory tier would find, without engine and time.");
  add_trace_flags(flags, options, "a trace file that says what its requests contain");
  flags.app().add_option("--generate", options.generate, "generated sessions instead (default: chat)");
  flags.whole("--seed", options.seed, 0, 1'000'000'000, "the generator's seed (default: 1)");
  flags.whole("--limit", options.limit, 1, 1'000'000'000, "read the first N requests only");
  flags.whole("--block-tokens", options.block, 1, 1'000'000, "tokens per block (default: 512)");
  flags.wholes("--blocks", options.capacity, 1, 1'000'000'000,
               "sizes of the tier, in blocks (default: 1000,10000,50000)");
  flags.whole("--device-blocks", options.device, 1, 1'000'000'000,
              "with --host-blocks: two tiers, this many blocks on the device");
  flags.whole("--host-blocks", options.host, 1, 1'000'000'000, "and this many on the host");
  flags.whole("--engines", options.engines, 1, 1'000, "engines that serve the requests in turn and share a pool");
  flags.whole("--chunk-tokens", options.chunk, 1, 1'000'000, "tokens of a chunk of that pool (default: 256)");
  if (const std::optional<int> stop = flags.parse(argc, argv)) return *stop;
  const auto wrong = [](const Error& error) {
    fmt::print(stderr, "sluice-tiers: {}\n", error.line());
    return 2;
  };
  if (!options.trace.empty() && !options.generate.empty())
    return wrong({ErrorCode::bad_input, "--generate", "there is a --trace as well", "one of the two"});
  if (const char* flag = options.read_without_trace())
    return wrong({ErrorCode::bad_input, flag, "there is no --trace", "--trace as well"});
  if (!options.trace.empty() && flags.app().count("--seed") > 0)
    return wrong({ErrorCode::bad_input, "--seed", "a trace has no random draws", "--seed with generated sessions"});
  if (flags.app().count("--chunk-tokens") > 0 && flags.app().count("--engines") == 0)
    return wrong({ErrorCode::bad_input, "--chunk-tokens", "no engines share a pool", "--engines as well"});
  if ((options.device > 0) != (options.host > 0))
    return wrong({ErrorCode::bad_input, options.device > 0 ? "--device-blocks" : "--host-blocks",
                  "the other tier has no size", "--device-blocks and --host-blocks"});
  std::string taken_for;
  const Expected<std::vector<Use>> uses = read_uses(options, taken_for);
  if (!uses) return wrong(uses.error());
  const std::vector<std::vector<BlockKey>> keys = keys_of(*uses, Tokens{options.block});
  if (!taken_for.empty()) fmt::print("{} {}\n\n", options.trace, taken_for);
  fmt::print("{}", one_tier(options, *uses, keys));
  if (options.device > 0) fmt::print("\n{}", two_tiers(options, *uses, keys));
  if (flags.app().count("--engines") > 0) fmt::print("\n{}", shared_pool(options, *uses, keys));
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return with_whole_output("sluice-tiers", [&] { return program(argc, argv); });
}
