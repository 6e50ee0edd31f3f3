// SPDX-License-Identifier: Apache-2.0
// Attention over paged K and V in bf16, on the emulator, against softmax in double; and the bits of its rows.
#include "kernels/attention_cases.hpp"

using namespace sluice;
using kernels::test::attention_has_three_stages;
using kernels::test::attention_holds;
using kernels::test::attention_merges_many_segments;

TEST_CASE("attention in bf16, heads of 64") { attention_holds<ElementType::bf16, 64>(); }
TEST_CASE("attention in bf16, heads of 80") { attention_holds<ElementType::bf16, 80>(); }
TEST_CASE("attention in bf16, heads of 96") { attention_holds<ElementType::bf16, 96>(); }
TEST_CASE("attention in bf16, heads of 128") { attention_holds<ElementType::bf16, 128>(); }
TEST_CASE("attention in bf16, heads of 192") { attention_holds<ElementType::bf16, 192>(); }
TEST_CASE("attention in bf16, heads of 256") { attention_holds<ElementType::bf16, 256>(); }
TEST_CASE("attention in bf16, more segments than lanes") { attention_merges_many_segments<ElementType::bf16>(); }
TEST_CASE("attention in bf16, three pages at a time, decoding") { attention_has_three_stages<ElementType::bf16, 1>(); }
TEST_CASE("attention in bf16, three pages at a time, prompts") { attention_has_three_stages<ElementType::bf16, 4>(); }
