// SPDX-License-Identifier: Apache-2.0
// Attention over paged K and V in f32, on the emulator, against softmax in double; and the bits of its rows.
#include "kernels/attention_cases.hpp"

using namespace sluice;
using kernels::test::attention_holds;

TEST_CASE("attention in f32, heads of 64") { attention_holds<ElementType::f32, 64>(); }
TEST_CASE("attention in f32, heads of 80") { attention_holds<ElementType::f32, 80>(); }
TEST_CASE("attention in f32, heads of 96") { attention_holds<ElementType::f32, 96>(); }
TEST_CASE("attention in f32, heads of 128") { attention_holds<ElementType::f32, 128>(); }
TEST_CASE("attention in f32, heads of 192") { attention_holds<ElementType::f32, 192>(); }
TEST_CASE("attention in f32, heads of 256") { attention_holds<ElementType::f32, 256>(); }
