// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder/runner_properties.hpp"

using namespace sluice;
using namespace sluice::kernels;

template class sluice::kernels::KernelRunner<emulate::KernelQueue,
                                             KernelRunnerConfig{ElementType::bf16, testing::small_head_dim}>;

TEST_CASE("kernels.decoder bf16: a row's result does not depend on other rows, and its token is the sampler's") {
  test::holds_what_it_promises<ElementType::bf16>();
}
