// SPDX-License-Identifier: Apache-2.0
// A kernel of your own, without a GPU: the emulator runs each CUDA thread as a fiber, in a random order, and the
// results are compared with a simple loop. docs/kernels.md walks through it.
#include "block_mean_keys.hpp"
#include "emulate/launch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace example;

int main() {
  using Kernel = BlockMeanKeys<BlockMeanKeysConfig{}>;
  constexpr int count = 5, heads = 2, block_tokens = 16, dim = Kernel::dim;

  // Five blocks of bf16 keys (and as many values, which are not read); the last has three tokens.
  std::vector<std::vector<Bf16>> blocks(count, std::vector<Bf16>(2 * heads * block_tokens * dim));
  for (std::size_t b = 0; b < count; ++b)
    for (std::size_t i = 0; i < blocks[b].size(); ++i)
      blocks[b][i] = narrow<Bf16>(std::sin(static_cast<float>(i + 7919 * b)));
  std::vector<const void*> table;
  for (const std::vector<Bf16>& block : blocks) table.push_back(block.data());
  const std::vector<int> tokens{16, 16, 16, 16, 3};
  std::vector<float> means(count * heads * dim);
  const Kernel::Params params{table.data(), tokens.data(), means.data(), count, heads, block_tokens};

  double worst = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) { // three orders of blocks, warps and threads
    const sluice::emulate::Report report = sluice::emulate::launch<Kernel>(Kernel::grid(params), params, seed);
    for (const std::string& error : report.errors) std::printf("%s\n", error.c_str());
    if (!report.ok()) return 1;
    for (std::size_t i = 0; i < means.size(); ++i) {
      const std::size_t block = i / (heads * dim), head = i / dim % heads, n = static_cast<std::size_t>(tokens[block]);
      double sum = 0;
      for (std::size_t t = 0; t < n; ++t) sum += widen(blocks[block][(head * block_tokens + t) * dim + i % dim]);
      worst = std::max(worst, std::abs(means[i] - sum / static_cast<double>(n)));
    }
  }
  std::printf("%d mean keys in 3 orders of threads: at most %.0e off\n", count * heads, worst);
  if (std::fflush(stdout) != 0) return std::perror("your_first_kernel: standard output"), 2;
  return worst < 1e-6 ? 0 : 1;
}
