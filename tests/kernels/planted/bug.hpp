// SPDX-License-Identifier: Apache-2.0
// Bug: the error of a planted kernel.
#pragma once

#include <cstdint>

namespace planted {

/// Each is a template parameter of one of this folder's kernels, which is right with `none`. A comment with the bug's
/// name marks the wrong line, or the line that shows it: the test expects a report of that line.
enum class Bug : std::uint8_t {
  none,
  missing_barrier_before_reuse,
  missing_barrier_after_arrival,
  missing_wait,
  wrong_mask,
  tail_off_by_one,
  wrong_page_order,
  uninitialised_shared_memory,
  out_of_bounds,
  shuffle_as_barrier,
  two_blocks_one_word,
  missing_fence_of_counter,
  missing_fence_of_proxy,
  fence_of_one_writer,
  bank_conflicts,
};

} // namespace planted
