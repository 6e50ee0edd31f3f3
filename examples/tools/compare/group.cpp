// SPDX-License-Identifier: Apache-2.0
// group_of: divides a model and a device among the members of a tensor-parallel group.
#include "compare/group.hpp"

#include "sluice/model/device/device.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/measured_grid.hpp"
#include "sluice/policy/cost/read_served_tables.hpp"
#include "sluice/policy/cost/roofline.hpp"

#include <fmt/format.h>

#include <utility>

namespace compared {

using namespace sluice;

Expected<Group> group_of(const MachineOptions& machine, const ModelShape& whole, const Device& device) {
  if (!machine.profile.empty())
    return flag_error("--tp", "the profile was measured on one device", "no --profile, or no --tp");
  const Expected<ModelShape> shard = tensor_shard(whole, machine.tp, "--tp");
  if (!shard) return shard.error();
  if (machine.tp % machine.gpus_per_link != 0)
    return flag_error("--gpus-per-link", fmt::format("{} of {} devices share one", machine.gpus_per_link, machine.tp),
                      "a number that divides them");
  const Expected<Device> member = group_member(device, machine.tp, machine.gpus_per_link, "--tp");
  if (!member) return member.error();
  const PeerLink& peer = *member->peer;
  const bool host = peer.path == PeerPath::host;
  const char* way = host ? "over it" : "apart from it";
  AllReduce all_reduce{peer, machine.tp};
  std::string reduces = fmt::format("all-reduces {} at {:.1f} GB/s", way, peer.rate.count() / 1e9);
  if (!machine.all_reduce.empty()) {
    Expected<MeasuredLine> measured = read_all_reduce(machine.all_reduce);
    if (!measured) return measured.error();
    all_reduce = AllReduce{std::move(*measured), peer.path, machine.tp};
    reduces = fmt::format("all-reduces {} as in {}", way, machine.all_reduce);
  }
  std::string name =
      fmt::format("{} x {} ({:.1f} GB/s from the host to {}, {})", machine.tp, device.name,
                  member->host_to_device.count() * machine.gpus_per_link / 1e9,
                  machine.gpus_per_link > 1 ? fmt::format("every {}", machine.gpus_per_link) : "each", reduces);
  std::string note = fmt::format("{:.1f} GB of weights and {} of {} KV heads on each of {} devices",
                                 static_cast<double>(shard->weight_bytes().count()) / 1e9, shard->kv_heads,
                                 whole.kv_heads, machine.tp);
  if (machine.tp > whole.kv_heads) note += fmt::format("; KV is kept {} times", machine.tp / whole.kv_heads);
  return Group{*shard,
               *member,
               engines::CostChoice{Roofline{*shard, *member}, whole, std::move(all_reduce)},
               std::move(name),
               fmt::format("roofline of model and device, in {} parts", machine.tp),
               std::move(note)};
}

} // namespace compared
