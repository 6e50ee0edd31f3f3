// SPDX-License-Identifier: Apache-2.0
// A published engine from sluice::compiled, and the user's own engine on the same core.
#include <sluice/engine/serve.hpp>
#include <sluice/engine/systems/orbitflow.hpp>
#include <sluice/model/device/named.hpp>
#include <sluice/model/named.hpp>

#ifndef SLUICE_COMPILED
#error "sluice::compiled defines SLUICE_COMPILED"
#endif

namespace {

/// Whether an engine of this type gives a request all its tokens.
template <class E>
bool serves() {
  const sluice::Server server{sluice::llama3_8b(), sluice::a100_80(), sluice::TokenBlocks{100}, {}};
  auto engine = E::make(sluice::configure<E>(server));
  if (!engine || !engine->submit({.prompt = sluice::Tokens{64}, .output = sluice::Tokens{8}, .slo = {}})) return false;
  while (engine->step() == sluice::Stepped::ran) {
  }
  return engine->status().ok() && engine->alive() == 0 && engine->steps() >= 8;
}

} // namespace

int main() {
  using Mine = sluice::Engine<sluice::DistancePlacement, sluice::TokenDeposit, sluice::PauseResume>;
  return serves<sluice::OrbitFlow>() && serves<Mine>() ? 0 : 1;
}
