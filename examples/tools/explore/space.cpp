// SPDX-License-Identifier: Apache-2.0
// Assembles this build's product from its parts.
#include "explore/space.hpp"

#include "sluice/core/text.hpp"
#include "sluice/engine/product.hpp"

#include "explore/part.hpp"

#include <utility>

namespace explored {

namespace {

template <class... Models>
std::vector<std::string> names_of(sluice::Choices<Models...>) {
  return {sluice::policy_name<Models>()...};
}

/// The product's roles and policies.
template <class... Lists>
void add_roles(Space& space, sluice::Product<Lists...>) {
  (space.roles.push_back({sluice::type_name<typename Lists::role>().substr(7), names_of(Lists{})}), ...);
}

} // namespace

Space space() {
  Space all;
  all.product = product_name;
  add_roles(all, Compositions{});
  [&]<std::size_t... K>(std::index_sequence<K...>) { (add_part<K>(all), ...); }
  (std::make_index_sequence<parts>{});
  return all;
}

} // namespace explored
