// SPDX-License-Identifier: Apache-2.0
// KeyHolders: which engines may hold a prompt's beginning, so that few are asked about each prompt.
#pragma once

#include "sluice/workload/content.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// The prompts that engines were sent, as a tree: an engine can find of a prompt only what it was sent. Where few
/// engines were sent a beginning, each of them is asked about each prompt. Where many were, all prompts up to the point
/// at which they differ have one answer per engine, which is asked once and kept while the engine's version is the
/// same; only the engines that were sent what follows that point are asked again. So the answers are those of asking
/// everybody, and the questions about a prompt do not grow with the engines that share its beginning. (Asking a
/// thousand engines for each request is a thousand cache misses.)
///
///     holders.add(keys, engine, stamp);                       // the engine was sent these blocks
///     holders.plan(keys, version_of, questions);              // what must be asked before `find`
///     for (Question& one : questions) one.put(ask);           // on any thread: they are independent
///     holders.find(keys, ask, found);                         // calls found(engine, count), the last call counts
class KeyHolders {
  struct Member {
    std::uint32_t engine = 0, found = 0; ///< found: of the beginning, as of `seen`
    std::uint64_t seen = never, stamp = 0;
  };
  struct Node;
  /// A beginning that many engines were sent.
  struct Shared {
    std::vector<BlockKey> keys;                                      ///< it: what all prompts below it begin with
    std::vector<Member> members;                                     ///< engines that were sent it, ascending
    std::unordered_map<std::uint64_t, std::unique_ptr<Node>> next{}; ///< by the key after it
  };
  struct Node {
    std::vector<Member> few{}; ///< engines that are asked about each prompt
    std::unique_ptr<Shared> shared{};
  };

 public:
  using Keys = std::span<const BlockKey>;
  static constexpr std::size_t most_few = 4; ///< engines that are asked about each prompt

  /// A question to one engine about a beginning.
  class Question {
   public:
    Question(Shared& of, std::size_t member) : of_(&of), member_(member) {}
    /// `ask(engine, keys)`: how many leading blocks of `keys` the engine has.
    template <class Ask>
    void put(Ask&& ask) const {
      Member& member = of_->members[member_];
      member.found = static_cast<std::uint32_t>(ask(member.engine, Keys(of_->keys)));
    }

   private:
    Shared* of_;
    std::size_t member_;
  };

  /// The engine was sent these blocks. `stamp` grows with every call.
  void add(Keys keys, std::uint32_t engine, std::uint64_t stamp) {
    if (keys.empty()) return;
    Node* node = &made(roots_, keys.front());
    for (;;) {
      if (const auto at = place(node->few, engine); at != node->few.end() && at->engine == engine) {
        at->stamp = stamp;
        return;
      } else if (node->shared == nullptr && node->few.size() < most_few) {
        node->few.insert(at, Member{engine, 0, never, stamp});
        ++count_;
        return;
      }
      if (node->shared == nullptr) node->shared.reset(new Shared{{keys.begin(), keys.end()}, {}});
      Shared& shared = *node->shared;
      if (const std::size_t alike = common(shared.keys, keys); alike < shared.keys.size()) split(shared, alike);
      const auto at = place(shared.members, engine);
      if (at != shared.members.end() && at->engine == engine) {
        at->stamp = stamp;
      } else {
        shared.members.insert(at, Member{engine, 0, never, stamp});
        ++count_;
      }
      if (keys.size() == shared.keys.size()) return;
      node = &made(shared.next, keys[shared.keys.size()]);
    }
  }

  /// Adds the questions whose answers `find` needs and does not know. `version_of(engine)` changes when the engine's
  /// answers may.
  template <class VersionOf>
  void plan(Keys keys, VersionOf&& version_of, std::vector<Question>& questions) {
    for (Node* node = first(keys); node != nullptr && node->shared != nullptr;) {
      Shared& shared = *node->shared;
      if (common(shared.keys, keys) < shared.keys.size()) return;
      for (std::size_t i = 0; i < shared.members.size(); ++i) {
        Member& member = shared.members[i];
        if (const std::uint64_t version = version_of(member.engine); member.seen != version) {
          member.seen = version;
          questions.emplace_back(shared, i);
        }
      }
      node = after(shared, keys);
    }
  }

  /// Calls `found(engine, count)` for each engine that may hold something of the prompt, some of them several times,
  /// the last time with what it holds. `ask(engine, keys)` is asked about few engines.
  template <class Ask, class Found>
  void find(Keys keys, Ask&& ask, Found&& found) const {
    for (const Node* node = first(keys); node != nullptr;) {
      for (const Member& one : node->few) found(one.engine, static_cast<std::size_t>(ask(one.engine, keys)));
      if (node->shared == nullptr) return;
      const Shared& shared = *node->shared;
      const bool begins = common(shared.keys, keys) == shared.keys.size();
      // A prompt that leaves the beginning earlier than all before it is asked for; `add` will split the beginning.
      for (const Member& one : shared.members)
        found(one.engine, begins ? std::size_t{one.found} : static_cast<std::size_t>(ask(one.engine, keys)));
      node = begins ? after(shared, keys) : nullptr;
    }
  }

  /// Whether so much has been added that it is time to `sweep`: each sweep removes half or doubles the time to the
  /// next.
  [[nodiscard]] bool full() const { return count_ >= limit_; }
  /// Keeps an engine with a beginning if `keeps(keys, engine, stamp)`, where `stamp` is the last `add`'s of both.
  /// Otherwise the engine must have lost the last of `keys` and what it was sent behind it, as caches do that forget
  /// the least recently used first, and get it again only by another `add`.
  template <class Keeps>
  void sweep(Keeps&& keeps) {
    count_ = 0;
    std::vector<BlockKey> keys;
    sweep(roots_, keys, keeps);
    limit_ = std::max(least, 2 * count_);
  }
  /// Pairs of an engine and a beginning.
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  using Nodes = std::unordered_map<std::uint64_t, std::unique_ptr<Node>>;
  static constexpr std::size_t least = 4096;
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  static Node& made(Nodes& in, BlockKey key) {
    std::unique_ptr<Node>& node = in[static_cast<std::uint64_t>(key)];
    if (node == nullptr) node = std::make_unique<Node>();
    return *node;
  }
  static std::vector<Member>::iterator place(std::vector<Member>& in, std::uint32_t engine) {
    return std::lower_bound(in.begin(), in.end(), engine,
                            [](const Member& one, std::uint32_t other) { return one.engine < other; });
  }
  /// How many leading keys are equal. A key names all blocks before its own, so the last equal one says it.
  static std::size_t common(Keys a, Keys b) {
    const std::size_t most = std::min(a.size(), b.size());
    if (most > 0 && a[most - 1] == b[most - 1]) return most;
    return static_cast<std::size_t>(
        std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first - a.begin());
  }
  [[nodiscard]] Node* first(Keys keys) const { return keys.empty() ? nullptr : at(roots_, keys.front()); }
  [[nodiscard]] static Node* after(const Shared& shared, Keys keys) {
    return keys.size() > shared.keys.size() ? at(shared.next, keys[shared.keys.size()]) : nullptr;
  }
  [[nodiscard]] static Node* at(const Nodes& in, BlockKey key) {
    const auto found = in.find(static_cast<std::uint64_t>(key));
    return found == in.end() ? nullptr : found->second.get();
  }
  /// The beginning ends after `alike` blocks; what follows in all its prompts is below it.
  void split(Shared& shared, std::size_t alike) {
    auto below = std::make_unique<Node>();
    below->shared.reset(new Shared{shared.keys, shared.members, std::move(shared.next)});
    const auto key = static_cast<std::uint64_t>(shared.keys[alike]);
    shared.keys.resize(alike);
    shared.next.clear();
    shared.next.emplace(key, std::move(below));
    for (Member& one : shared.members) one.seen = never;
    count_ += shared.members.size();
  }
  /// `before`: the keys before those of `nodes`.
  template <class Keeps>
  void sweep(Nodes& nodes, std::vector<BlockKey>& before, Keeps& keeps) {
    const std::size_t count = before.size();
    for (auto at = nodes.begin(); at != nodes.end();) {
      Node& node = *at->second;
      before.push_back(BlockKey{at->first});
      const auto sweep_list = [&](std::vector<Member>& list) {
        std::erase_if(list, [&](const Member& one) { return !keeps(Keys(before), one.engine, one.stamp); });
        count_ += list.size();
      };
      sweep_list(node.few);
      if (node.shared != nullptr) {
        sweep_list(node.shared->members);
        before.assign(node.shared->keys.begin(), node.shared->keys.end());
        sweep(node.shared->next, before, keeps);
        if (node.shared->members.empty() && node.shared->next.empty()) node.shared.reset();
      }
      before.resize(count);
      at = node.few.empty() && node.shared == nullptr ? nodes.erase(at) : std::next(at);
    }
  }

  Nodes roots_; ///< by first key
  std::size_t count_ = 0, limit_ = least;
};

} // namespace sluice
