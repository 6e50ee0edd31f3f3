// SPDX-License-Identifier: Apache-2.0
// Attention over paged K and V in f16, on the emulator, against softmax in double; and the bits of its rows.
#include "kernels/attention_cases.hpp"

using namespace sluice;
using kernels::test::attention_holds;

TEST_CASE("attention in f16, heads of 64") { attention_holds<ElementType::f16, 64>(); }
TEST_CASE("attention in f16, heads of 80") { attention_holds<ElementType::f16, 80>(); }
TEST_CASE("attention in f16, heads of 96") { attention_holds<ElementType::f16, 96>(); }
TEST_CASE("attention in f16, heads of 128") { attention_holds<ElementType::f16, 128>(); }
TEST_CASE("attention in f16, heads of 256") { attention_holds<ElementType::f16, 256>(); }
