// SPDX-License-Identifier: Apache-2.0
// SharedBeginning: which prompts of a dataset share a prefix, as one short row each, and the block keys that follow.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/state/memory/prefix_cache.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace sluice {

/// Prompt number `prompt` of a dataset (counted from 0) shares its first `tokens` tokens with the earlier prompt number
/// `earlier`, and shares no longer prefix with any other earlier prompt.
///
/// One such row per prompt determines every shared prefix in the dataset: a prompt and a third one share nothing beyond
/// `tokens`, and up to there what `earlier` shares with it. So a prefix cache can be simulated without the text of the
/// prompts.
struct SharedBeginning {
  std::uint32_t prompt = 0;
  std::uint32_t earlier = 0;
  std::int64_t tokens = 0;

  friend bool operator==(const SharedBeginning&, const SharedBeginning&) = default;
};

/// The rows of `prompts` (token ids), ascending by prompt; rows with fewer than `least` tokens are left out. Takes
/// O(log prompts) comparisons of two prompts per prompt.
inline std::vector<SharedBeginning> find_shared_beginnings(std::span<const std::vector<std::uint64_t>> prompts,
                                                           Tokens least) {
  const auto common = [&](std::size_t a, std::size_t b) {
    const auto [end, other] = std::mismatch(prompts[a].begin(), prompts[a].end(), prompts[b].begin(), prompts[b].end());
    return static_cast<std::int64_t>(end - prompts[a].begin());
  };
  // In lexicographic order, one of the two neighbours shares the longest prefix of all earlier prompts.
  const auto in_dictionary = [&](std::size_t a, std::size_t b) {
    return prompts[a] != prompts[b] ? prompts[a] < prompts[b] : a < b;
  };
  std::set<std::size_t, decltype(in_dictionary)> earlier(in_dictionary);
  std::vector<SharedBeginning> rows;
  for (std::size_t prompt = 0; prompt < prompts.size(); ++prompt) {
    const auto here = earlier.insert(prompt).first;
    SharedBeginning row{static_cast<std::uint32_t>(prompt), 0, 0};
    const auto consider = [&](std::size_t other) {
      const std::int64_t tokens = common(prompt, other);
      if (tokens > row.tokens) row = {row.prompt, static_cast<std::uint32_t>(other), tokens};
    };
    if (here != earlier.begin()) consider(*std::prev(here));
    if (auto next = here; ++next != earlier.end()) consider(*next);
    if (row.tokens > 0 && row.tokens >= least.count()) rows.push_back(row);
  }
  return rows;
}

/// Keys of the full blocks of prompts with these `lengths`: two keys are equal exactly if the rows say that the prompts
/// share that prefix (except for collisions of 64-bit hashes). Exact for blocks of at least `least` tokens, the value
/// with which the rows were made.
///
/// `rows` ascend by prompt, `earlier` is below `prompt`, every number is below `lengths.size()`, and no row has more
/// tokens than either of its prompts.
inline std::vector<std::vector<BlockKey>>
keys_of_shared_beginnings(std::span<const SharedBeginning> rows, std::span<const Tokens> lengths, Tokens block_tokens) {
  std::vector<std::vector<BlockKey>> keys(lengths.size());
  auto row = rows.begin();
  for (std::size_t prompt = 0; prompt < lengths.size(); ++prompt) {
    const auto blocks = static_cast<std::size_t>(lengths[prompt].count() / block_tokens.count());
    std::vector<BlockKey>& own = keys[prompt];
    if (row != rows.end() && row->prompt == prompt) {
      const auto shared = static_cast<std::size_t>(row->tokens / block_tokens.count());
      SLUICE_ASSERT(row->earlier < prompt, "an earlier prompt");
      SLUICE_ASSERT(shared <= blocks && shared <= keys[row->earlier].size(), "no more than either prompt has");
      own.assign(keys[row->earlier].begin(), keys[row->earlier].begin() + static_cast<std::ptrdiff_t>(shared));
      ++row;
    }
    // The upper half of the numbers: an engine uses the lower half for generated tokens.
    constexpr std::uint64_t nobody_elses = std::uint64_t{1} << 63;
    while (own.size() < blocks) {
      const BlockKey before = own.empty() ? BlockKey{} : own.back();
      own.push_back(next_key(before, nobody_elses + (std::uint64_t{prompt} << 32) + own.size()));
    }
  }
  SLUICE_ASSERT(row == rows.end(), "ascending rows of existing prompts");
  return keys;
}

} // namespace sluice
