// SPDX-License-Identifier: Apache-2.0
// Window: for how many iterations a plan has to hold.
#pragma once

namespace sluice {

/// For how many iterations a plan has to hold at least, and need hold at most.
struct Window {
  int min = 1;
  int max = 1;
};

} // namespace sluice
