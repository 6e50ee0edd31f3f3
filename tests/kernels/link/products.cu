// SPDX-License-Identifier: Apache-2.0
// Compiled by nvcc and linked with cuBLASLt: the models of Product as a whole. With a GPU it also runs the library
// (exit status 0: own tiles keep the bits of rows); without one it reports that.
#include "kernels/products/cublas_lt.cuh"
#include "kernels/products/invariant.cuh"

#include <cstdio>

using namespace sluice;
using namespace sluice::kernels;

namespace {

static_assert(InvariantProduct<CudaInvariant>);
static_assert(Product<CublasLt> && !InvariantProduct<CublasLt>);

int said(const char* who, const Expected<bool>& shown) {
  std::printf("%s: %s\n", who, !shown ? shown.error().line().c_str() : *shown ? "rows keep their bits" : "they do not");
  return shown && *shown ? 0 : 1;
}

} // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("SKIPPED: products on a card, of which there is none");
    return 0;
  }
  void* memory = nullptr;
  if (cudaMalloc(&memory, static_cast<std::size_t>(CublasLt::wanted_workspace.count())) != cudaSuccess) return 1;
  const LtWorkspace workspace{memory, CublasLt::wanted_workspace};
  Expected<CublasLt> fast = CublasLt::make(workspace);
  Expected<PinnedCublasLt> pinned = PinnedCublasLt::make(workspace, 64);
  LaunchedTiles tiles;
  if (!fast || !pinned) return 1;
  if (!tiles.add<TileProductConfig{ElementType::bf16, 16}>().ok()) return 1;
  if (!tiles.add<TileProductConfig{ElementType::bf16, 64}>().ok()) return 1;
  if (!tiles.add<TileProductConfig{ElementType::bf16, 128}>().ok()) return 1;
  const ProductShape shape{.outputs = 4096, .inputs = 4096};
  CudaCheckMemory check;
  said("CublasLt", shows_invariance(*fast, check, shape, nullptr));
  said("PinnedCublasLt", shows_invariance(*pinned, check, shape, nullptr));
  CudaInvariant own{tiles};
  const int failed = said("own tiles", shows_invariance(own, check, shape, nullptr));
  CudaInvariant either{tiles, *std::move(pinned)};
  said("preferred", either.prefer_pinned(check, shape, nullptr));
  return failed + said("Invariant", shows_invariance(either, check, shape, nullptr));
}
