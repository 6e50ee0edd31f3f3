// SPDX-License-Identifier: Apache-2.0
// Window: for how many iterations a plan has to hold.
#pragma once

namespace sluice {

/// For how many iterations a plan has to hold at least, and need hold at most.
struct Window {
  int min = 1; ///< the iterations through which a plan must fit, with every request a token longer in each
  int max = 1; ///< beyond these nobody asks
};

} // namespace sluice
