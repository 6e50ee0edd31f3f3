// SPDX-License-Identifier: Apache-2.0
// Part SLUICE_EXPLORE_PART of the product, and with it the part's engines (CMakeLists.txt compiles this for each part).
#include "explore/part.hpp"

#include "sluice/engine/product.hpp"

#include "engines/entry.hpp"

namespace explored {

template <std::size_t K>
void add_part(Space& space) {
  Compositions::for_each_of_part<K, parts>([&space]<std::size_t I>() {
    constexpr sluice::Combined fate = Compositions::fate<I>;
    space.combinations.push_back({fate != sluice::Combined::conflicts, Compositions::original<I>()});
    if constexpr (fate == sluice::Combined::engine) {
      using E = Compositions::engine<I>;
      space.engines.push_back({I, sluice::engine_name<E>(), &engines::detail::simulate<E>});
    }
  });
}

template void add_part<SLUICE_EXPLORE_PART>(Space&);

} // namespace explored
