// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/streamed_weights.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System deepspeed_weights() {
  System system = tenants_entry<sluice::DeepSpeedWeights, sluice::Uncoordinated>(
      "DeepSpeedWeights", "every layer's weights on the host, fetched a layer ahead");
  system.streams_weights = true;
  return system;
}
System flexgen_weights() {
  System system = tenants_entry<sluice::FlexGenWeights, sluice::Uncoordinated>(
      "FlexGenWeights", "a part of every layer's weights on the host, sized by peak rates");
  system.streams_weights = true;
  return system;
}
System select_n() {
  System system = tenants_entry<sluice::SelectN, sluice::BusCoordinator>(
      "SelectN", "weights of every n-th layer on the host, as many as the SLO leaves time for");
  system.streams_weights = true;
  return system;
}
System mirage() {
  return tenants_entry<sluice::Mirage, sluice::RemapController>(
      "Mirage", "weights' memory becomes KV when KV runs out, an inactive tenant's first");
}
System mirage_one_slot() {
  return entry<sluice::MirageOneSlot>("MirageOneSlot", "ablation: always one slot, even where it delays computation");
}
System mirage_no_reversion() {
  return entry<sluice::MirageNoReversion>("MirageNoReversion", "ablation: memory that was lent stays with KV");
}

} // namespace engines
