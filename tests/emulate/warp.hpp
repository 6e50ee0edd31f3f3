// SPDX-License-Identifier: Apache-2.0
// Warp: where the lanes of one warp meet to exchange values of registers.
#pragma once

#include "emulate/report.hpp"
#include "emulate/sanitizers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::emulate {

/// The kind of call for which lanes meet: lanes in two different calls do not meet.
enum class Exchange : std::uint8_t { sync_warp, shuffle, shuffle_xor, shuffle_up, ballot, matrices, transposed, mma };

/// One call by some lanes of a warp.
struct Meeting {
  std::uint32_t lanes = 0;
  std::uint32_t come = 0; // and have not left
  Exchange kind = Exchange::sync_warp;
  Where where;
  alignas(64) std::byte place[32 * 64];

  template <class T>
  EMULATE_UNSEEN T* slots() {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 64);
    return reinterpret_cast<T*>(place);
  }
};

/// The lanes of one mask, at `sync_warp`.
struct WarpBarrier {
  std::uint32_t lanes = 0;
  unsigned passed = 0;
  Order order[2]; // two, as for the block's barrier
};

class Warp {
 public:
  /// This call's incomplete meeting, or a new one.
  Meeting& join(std::uint32_t lanes, Exchange kind, Where where) {
    for (Meeting* one : open_)
      if (one->lanes == lanes && one->kind == kind && one->where == where) return *one;
    if (free_.empty()) {
      meetings_.push_back(std::make_unique<Meeting>());
      free_.push_back(meetings_.back().get());
    }
    Meeting* const one = free_.back();
    free_.pop_back();
    one->lanes = lanes;
    one->come = 0;
    one->kind = kind;
    one->where = where;
    open_.push_back(one);
    return *one;
  }
  /// All have arrived. Later arrivals start a new meeting.
  void close(const Meeting& meeting) { open_.erase(std::find(open_.begin(), open_.end(), &meeting)); }
  /// All have left.
  void reuse(Meeting& meeting) { free_.push_back(&meeting); }

  WarpBarrier& barrier(std::uint32_t lanes) {
    for (auto& one : barriers_)
      if (one->lanes == lanes) return *one;
    barriers_.push_back(std::make_unique<WarpBarrier>());
    barriers_.back()->lanes = lanes;
    return *barriers_.back();
  }
  /// Resets for another block's warp.
  void restart() {
    open_.clear();
    free_.clear();
    for (auto& one : meetings_) free_.push_back(one.get());
    barriers_.clear();
  }

 private:
  std::vector<std::unique_ptr<Meeting>> meetings_;
  std::vector<Meeting*> open_, free_;
  std::vector<std::unique_ptr<WarpBarrier>> barriers_;
};

inline std::string hex(std::uint32_t x) {
  std::string text = "0x";
  for (int digit = 28; digit >= 0; digit -= 4) text += "0123456789abcdef"[x >> digit & 15U];
  return text;
}

} // namespace sluice::emulate
