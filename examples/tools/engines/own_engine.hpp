// SPDX-License-Identifier: Apache-2.0
// OwnEngine: what sluice_add_comparison asks of a type that it is given. Included before anything dear: what is wrong
// with a name is said in the first line.
#pragma once

namespace engines {

/// An engine has a policy for every role. (A policy has none, and that is what is easily named instead.)
template <class T>
concept OwnEngine = requires {
  typename T::Config;
  typename T::admission_type;
  typename T::placement_type;
};

} // namespace engines
