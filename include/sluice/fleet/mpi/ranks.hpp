// SPDX-License-Identifier: Apache-2.0
// MpiRanks: the ranks of a fleet that mpirun or srun started.
#pragma once

#include "sluice/fleet/ranks.hpp"

#include <mpi.h>

#include <cstddef>
#include <span>
#include <vector>

namespace sluice {

/// All ranks of MPI_COMM_WORLD. Its lifetime is MPI's, unless the program has started MPI before. One thread of a
/// process at a time calls it, the one that runs the fleet, which may be another than the one that started MPI: check
/// `any_thread`.
class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    int begun = 0;
    MPI_Initialized(&begun);
    if (begun == 0) {
      int provided = 0;
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
      ends_ = true;
    }
    MPI_Query_thread(&level_);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &count_);
  }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;
  ~MpiRanks() override {
    if (ends_) MPI_Finalize();
  }

  /// Whether MPI lets every thread call it, one at a time (MPI_THREAD_SERIALIZED).
  [[nodiscard]] bool any_thread() const { return level_ >= MPI_THREAD_SERIALIZED; }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int count() const override { return count_; }
  [[nodiscard]] std::vector<std::byte> gather(std::span<const std::byte> mine) override {
    sizes_.resize(static_cast<std::size_t>(count_));
    places_.resize(sizes_.size());
    const auto size = static_cast<int>(mine.size());
    MPI_Allgather(&size, 1, MPI_INT, sizes_.data(), 1, MPI_INT, MPI_COMM_WORLD);
    int all = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      places_[i] = all;
      all += sizes_[i];
    }
    std::vector<std::byte> gathered(static_cast<std::size_t>(all));
    MPI_Allgatherv(mine.data(), size, MPI_BYTE, gathered.data(), sizes_.data(), places_.data(), MPI_BYTE,
                   MPI_COMM_WORLD);
    return gathered;
  }

 private:
  int rank_ = 0, count_ = 1;
  int level_ = 0; ///< of threads, that MPI provides
  bool ends_ = false;
  std::vector<int> sizes_, places_; ///< scratch, by rank
};

} // namespace sluice
