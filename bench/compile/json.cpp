// SPDX-License-Identifier: Apache-2.0
// The reference for compile times: a header that C++ programs commonly include.
#include <nlohmann/json.hpp>
