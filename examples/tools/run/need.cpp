// SPDX-License-Identifier: Apache-2.0
// Finds a request's least memory by search.
#include "run/need.hpp"

#include "sluice/world/real/world_of.hpp"
#include "sluice/world/simulated.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace running {

using namespace sluice;

namespace {

class One final : public Arrivals {
 public:
  explicit One(RequestSpec request) : request_(request) {}
  [[nodiscard]] std::optional<Seconds> next_arrival() const override {
    return taken_ ? std::nullopt : std::optional{Seconds{0}};
  }
  [[nodiscard]] RequestSpec take() override {
    taken_ = true;
    return request_;
  }
  void submitted(const Expected<RequestId>&) override {}

 private:
  RequestSpec request_;
  bool taken_ = false;
};

bool serves(const engines::System& system, engines::Setup setup, std::int64_t blocks, const RequestSpec& request) {
  setup.device_blocks = LayerBlocks{blocks};
  setup.calibrates = false; // the simulated world's iterations have arbitrary times
  One one{request};
  Recorded recorded;
  bool served = false;
  recorded.ended = [&served](RequestId) { served = true; };
  const std::int64_t steps = 64 + 4 * ((request.prompt + request.output).count());
  const Status status =
      run(system, {setup, request.slo, world_of(BasicSimulated<FixedDuration>{}), one, recorded, steps});
  return status.ok() && served;
}

/// The request just before its end. It has its largest KV whichever of its tokens were given, so few steps are enough.
RequestSpec at_its_longest(RequestSpec request) {
  constexpr std::int64_t steps = 4;
  request.arrival = Seconds{0};
  if (request.output.count() <= steps) return request;
  request.prompt = request.prompt + request.output - Tokens{steps};
  request.output = Tokens{steps};
  return request;
}

/// More than any system needs of either memory.
std::int64_t ample(const engines::Setup& setup, const RequestSpec& longest) {
  const std::int64_t layers = setup.geometry.layers;
  const std::int64_t kv = blocks_for(longest.prompt + longest.output, setup.limits.block_tokens).count() * layers;
  return 4 * (kv + std::max<std::int64_t>(setup.worst_batch.count() * layers, 1)) + 64;
}

/// The least number above `too_few` for which `serves` returns true; empty if it is false for `enough`.
template <class Serves>
std::optional<LayerBlocks> least(std::int64_t too_few, std::int64_t enough, Serves serves) {
  if (!serves(enough)) return std::nullopt;
  while (enough - too_few > 1) {
    const std::int64_t middle = too_few + (enough - too_few) / 2;
    (serves(middle) ? enough : too_few) = middle;
  }
  return LayerBlocks{enough};
}

} // namespace

std::optional<LayerBlocks> least_blocks(const engines::System& system, const engines::Setup& setup,
                                        const RequestSpec& request) {
  const RequestSpec longest = at_its_longest(request);
  return least(-setup.geometry.blocks_in(setup.geometry.layers).count() - 1, ample(setup, longest),
               [&](std::int64_t blocks) { return serves(system, setup, blocks, longest); });
}

std::optional<LayerBlocks> least_host_blocks(const engines::System& system, const engines::Setup& setup,
                                             const RequestSpec& request) {
  const RequestSpec longest = at_its_longest(request);
  const std::int64_t device = ample(setup, longest);
  return least(-1, device, [&, changed = setup](std::int64_t blocks) mutable {
    changed.host_blocks = LayerBlocks{blocks};
    return serves(system, changed, device, longest);
  });
}

} // namespace running
