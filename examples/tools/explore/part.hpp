// SPDX-License-Identifier: Apache-2.0
// A part of the product: its combinations and engines, appended to a Space. Included by generated files alone.
#pragma once

#include "sluice/engine/product.hpp"

#include "compare/run_engine.hpp"
#include "explore/space.hpp"
#include "explore/tally.hpp"

#include <cstddef>
#include <string>

namespace explored {

/// Appends part `K` of `Of`, and with it instantiates its engines.
template <class Product, std::size_t K, std::size_t Of>
void add_part(Space& space) {
  Product::template for_each_of_part<K, Of>([&space]<std::size_t I>() {
    constexpr sluice::Combined fate = Product::template fate<I>;
    space.combinations.push_back({fate != sluice::Combined::conflicts, Product::template original<I>()});
    if constexpr (fate == sluice::Combined::engine) {
      using E = typename Product::template engine<I>;
      space.engines.push_back({I, sluice::engine_name<E>(), compared::run_engine<E, Tally>});
    }
  });
}

template <class... Models>
std::vector<std::string> names_of(sluice::Choices<Models...>) {
  return {sluice::policy_name<Models>()...};
}

/// What the product is made of.
template <class... Lists>
void add_roles(Space& space, sluice::Product<Lists...>) {
  (space.roles.push_back({sluice::type_name<typename Lists::role>().substr(7), names_of(Lists{})}), ...);
}

} // namespace explored
