// SPDX-License-Identifier: Apache-2.0
#include <sluice/sluice.hpp>

int main() { return sluice::LayerSet::all(32).count() == 32 ? 0 : 1; }
