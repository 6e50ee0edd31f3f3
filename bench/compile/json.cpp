// SPDX-License-Identifier: Apache-2.0
// The yardstick: a header that C++ programs include without a second thought.
#include <nlohmann/json.hpp>
