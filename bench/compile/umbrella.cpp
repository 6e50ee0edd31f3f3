// SPDX-License-Identifier: Apache-2.0
// Compile cost of including Sluice, before a policy is named.
#include "sluice/sluice.hpp"
