// SPDX-License-Identifier: Apache-2.0
// Ranks: processes that run one fleet together, each with a part of its engines.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

/// Processes that run one fleet. All read the whole workload and route every request alike; each runs its own engines,
/// and they exchange what engines report, once per window. fleet/mpi/ranks.hpp has those that mpirun starts. Called
/// once per window, so a virtual call costs nothing; a fleet's type does not depend on where it runs.
class Ranks {
 public:
  virtual ~Ranks() = default;
  [[nodiscard]] virtual int rank() const = 0;  ///< of this process, from 0
  [[nodiscard]] virtual int count() const = 0; ///< of processes
  /// Returns the bytes of all ranks, in the order of the ranks. All call it the same number of times.
  [[nodiscard]] virtual std::vector<std::byte> gather(std::span<const std::byte> mine) = 0;

 protected:
  Ranks() = default;
  Ranks(const Ranks&) = default;
  Ranks& operator=(const Ranks&) = default;
};

/// This rank's part of `count` engines: first, and one past the last.
[[nodiscard]] inline std::pair<std::size_t, std::size_t> part_of(const Ranks* ranks, std::size_t count) {
  if (ranks == nullptr) return {0, count};
  const auto rank = static_cast<std::size_t>(ranks->rank()), all = static_cast<std::size_t>(ranks->count());
  return {count * rank / all, count * (rank + 1) / all};
}

/// Replaces this rank's values by those of all ranks, in their order. Null: there is one process.
template <class T>
  requires std::is_trivially_copyable_v<T>
void share(Ranks* ranks, std::vector<T>& values) {
  if (ranks == nullptr || ranks->count() == 1) return;
  const std::vector<std::byte> all = ranks->gather(std::as_bytes(std::span<const T>(values)));
  SLUICE_ASSERT(all.size() % sizeof(T) == 0, "whole values of every rank");
  values.resize(all.size() / sizeof(T));
  if (!all.empty()) std::memcpy(static_cast<void*>(values.data()), all.data(), all.size());
}

/// Returns an error on every rank if one rank has one: its own, or the first other rank's. So no rank goes on alone and
/// waits for ever. All ranks call it.
[[nodiscard]] inline Status agree(Ranks* ranks, Status mine) {
  if (ranks == nullptr || ranks->count() == 1) return mine;
  std::vector<char> errors; // each: its parts with a zero after each
  if (!mine.ok())
    for (const std::string* part : {&mine.error().where, &mine.error().what, &mine.error().expected})
      errors.insert(errors.end(), part->c_str(), part->c_str() + part->size() + 1);
  share(ranks, errors);
  if (errors.empty() || !mine.ok()) return mine;
  const std::string where(errors.data()), what(errors.data() + where.size() + 1);
  return Error{ErrorCode::bad_input, where, what, std::string(errors.data() + where.size() + what.size() + 2)};
}

} // namespace sluice
