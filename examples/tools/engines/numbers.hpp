// SPDX-License-Identifier: Apache-2.0
// Numbers of policies that the command line sets: --set SlackFirst.share=0.8; and their list.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/numbers.hpp"

#include "engines/setup.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace engines {

struct System;

/// A number that a policy of some system declares.
struct NumberRow {
  std::string_view policy, name, what;
  double value = 0, least = 0, most = 0; ///< its default and its bounds
  bool whole = false;
};

/// Appends a policy's numbers and those of its parts.
template <class P>
void append_numbers(std::vector<NumberRow>& rows, const P& policy) {
  if constexpr (sluice::HasNumbers<P>)
    P::numbers.for_each([&](const auto& number) {
      rows.push_back({P::numbers.policy, number.name, number.what, number.get(policy), number.least, number.most,
                      number.template whole<P>});
    });
  if constexpr (sluice::HasNumberedParts<P>)
    P::parts.for_each(policy, [&rows](const auto& part) { append_numbers(rows, part); });
}

/// The numbers of the policies of engine type `E`.
template <class E>
std::vector<NumberRow> numbers_of() {
  std::vector<NumberRow> rows;
  const auto add = [&rows](const auto& policy) { append_numbers(rows, policy); };
  add(typename E::admission_type{});
  add(typename E::placement_type{});
  add(typename E::weights_type{});
  add(typename E::replan_type{});
  add(typename E::relief_type{});
  add(typename E::retention_type{});
  add(typename E::caching_type{});
  add(typename E::delivery_type{});
  add(typename E::lookahead_type{});
  return rows;
}

/// Sets the numbers of one policy, and of its parts, that `settings` names, in the order of the command line. Values
/// are within bounds: `read_setting` checks them.
template <class P>
void set_numbers(P& policy, std::span<const NumberSetting> settings) {
  if constexpr (sluice::HasNumbers<P>)
    for (const NumberSetting& setting : settings)
      if (setting.policy == P::numbers.policy)
        P::numbers.for_each([&](const auto& number) {
          if (number.name == setting.name) number.set(policy, setting.value);
        });
  if constexpr (sluice::HasNumberedParts<P>)
    P::parts.for_each(policy, [settings](auto& part) { set_numbers(part, settings); });
}

/// All numbers of `systems`, each policy's once, by policy name.
std::vector<NumberRow> all_numbers(std::span<const System> systems);

/// `Policy.number=value` for a number that one of `systems` has. Errors: no such policy or number, with the nearest; a
/// value that is no number or out of bounds.
sluice::Expected<NumberSetting> read_setting(const std::string& text, std::span<const System> systems);

/// The same for several. Error: a number is set twice.
sluice::Expected<std::vector<NumberSetting>> read_settings(std::span<const std::string> texts,
                                                           std::span<const System> systems);

/// The list of numbers, for people.
std::string numbers_text(std::span<const System> systems);

} // namespace engines
