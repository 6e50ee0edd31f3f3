// SPDX-License-Identifier: Apache-2.0
// Every engine that some policies per role compose.
// Written by `make umbrella`.
#pragma once

#include "sluice/sluice.hpp"

// In the order of the layers, which the formatter would sort away.
// clang-format off
#include "sluice/engine/product.hpp"
// clang-format on
