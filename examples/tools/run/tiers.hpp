// SPDX-License-Identifier: Apache-2.0
// The host and the disk for KV of ended requests: --host-cache and --disk-cache.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/records/record_store.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/machine/machine_setup.hpp"

#include "run/options.hpp"

#include <memory>
#include <string>

namespace running {

/// Sets these flags by --kv-transfer-config, if it is given. Errors: a setting that cannot be kept; a flag that says
/// it, too.
sluice::Status take_kv_transfer(Options& options);

/// Checks these flags against the others.
sluice::Status check_tiers(const Options& options);

/// Gives the machine the tiers that the flags ask for; nothing else is changed without them. Errors: the host has no
/// room for one block; the folder cannot be used.
sluice::Status add_tiers(const Options& options, const sluice::ModelWeights& weights, const sluice::LocalMemory& memory,
                         sluice::MachineSetup& setup);

/// Opens the records of a model in a folder. Errors: as above, or this program was built without ISA-L.
sluice::Expected<std::shared_ptr<sluice::RecordStore>> open_records(const DiskCache& disk, std::uint64_t digest);

} // namespace running
