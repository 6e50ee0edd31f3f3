// SPDX-License-Identifier: Apache-2.0
// OwnEngine: the requirements of sluice_add_comparison for its engine types. Included before any header that is slow to
// compile, so that the compiler's first line reports a wrong name.
#pragma once

namespace engines {

/// An engine has a policy for every role. (The usual mistake is to name a policy instead of an engine: a policy has
/// none.)
template <class T>
concept OwnEngine = requires {
  typename T::Config;
  typename T::admission_type;
  typename T::placement_type;
};

} // namespace engines
