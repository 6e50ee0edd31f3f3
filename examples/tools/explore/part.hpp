// SPDX-License-Identifier: Apache-2.0
// A part of the product: appends its combinations and engines to a Space. Each part is a separate object (part.cpp).
#pragma once

#include "explore/space.hpp"

#include <cstddef>

#include SLUICE_EXPLORE_SPACE // the product's header: CMake's sluice_add_space() defines it

namespace explored {

/// Appends part `K` of `parts`.
template <std::size_t K>
void add_part(Space& space);

} // namespace explored
