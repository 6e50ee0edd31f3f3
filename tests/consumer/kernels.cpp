// SPDX-License-Identifier: Apache-2.0
// The kernels' headers, which need no CUDA: which kernels are compiled, and what to add for another.
#include "kernels/needs.hpp"

int main() {
  using namespace sluice::kernels;
  const auto needed = needed_kernels(sluice::DecoderConfig{.shape = {.head_dim = 128}}, sluice::ElementType::bf16);
  for (const NeededKernel& kernel : needed)
    if (!kernel.compiled) return 1;
  return line_of(PagedAttentionConfig{.head_dim = 256}).find(".head_dim = 256") == std::string::npos ? 1 : 0;
}
