// SPDX-License-Identifier: Apache-2.0
// What every file that includes Sluice pays before it names a policy.
#include "sluice/sluice.hpp"
