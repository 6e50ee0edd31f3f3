// SPDX-License-Identifier: Apache-2.0
// A layer block is 1/layers of a token block: the units exist to prevent mistaking one for the other.
// sentences: 0
// says[GNU]: no match for .operator\+
// says[Clang]: invalid operands to binary expression
// says[nvcc]: no operator "\+" matches these operands
#include "sluice/core/units.hpp"

#ifdef GOOD
sluice::LayerBlocks sum = sluice::LayerBlocks{3} + sluice::across_layers(sluice::TokenBlocks{4}, 32);
#else
sluice::LayerBlocks sum = sluice::LayerBlocks{3} + sluice::TokenBlocks{4};
#endif
