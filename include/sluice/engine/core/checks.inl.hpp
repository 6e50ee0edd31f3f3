// SPDX-License-Identifier: Apache-2.0
// Checks: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/engine/core/checks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

// Error texts are built from a few phrases by cold functions: inlined strings for rarely built texts were a third of a
// plain engine's code, and of its compile time.
namespace sluice::detail {

[[gnu::cold, gnu::noinline]] SLUICE_INLINE std::string phrase(const char* before, std::int64_t number,
                                                              const char* after) {
  std::string text = before;
  text += std::to_string(number);
  text += after;
  return text;
}

[[gnu::cold]] SLUICE_INLINE Status check_setup(const Limits& limits, const Geometry& geometry,
                                               LayerBlocks device_blocks, LayerBlocks host_blocks) {
  Error bad{ErrorCode::bad_input, "engine configuration", {}, "at least 1"};
  if (geometry.layers < 1 || geometry.layers > max_layers) {
    bad.what = phrase("the model has ", geometry.layers, " layers");
    bad.expected = phrase("1 to ", max_layers, "");
  } else if (geometry.layer_block_bytes.count() <= 0) {
    bad.what = "a layer block has no bytes";
    bad.expected = "a positive size";
  } else if (limits.batch < 1) {
    bad.what = phrase("the batch limit is ", limits.batch, "");
  } else if (limits.batch_tokens.count() < 1) {
    bad.what = phrase("the token budget is ", limits.batch_tokens.count(), "");
  } else if (limits.block_tokens.count() < 1) {
    bad.what = phrase("a block holds ", limits.block_tokens.count(), " tokens");
  } else if (device_blocks.count() < geometry.layers) {
    bad.what = phrase("there is device memory for ", device_blocks.count(), " layer blocks of KV");
    bad.expected = phrase("at least one block of each of the ", geometry.layers, " layers");
  } else if (host_blocks.count() < 0) {
    bad.what = "the host memory for KV is negative";
    bad.expected = "at least 0";
  } else {
    return {};
  }
  return bad;
}

[[gnu::cold]] SLUICE_INLINE Status check_host_tier(Replacement evicts, const Tier& host, const Tier& own) {
  if (own.replacement != evicts)
    return Error{ErrorCode::bad_input, "engine configuration",
                 "the machine's host tier evicts by " + std::string{name(evicts)} + ", and its Caching policy by " +
                     std::string{name(own.replacement)},
                 "MachineSetup::tier_evicts as the policy's first_tier() has it"};
  if (own != host)
    return Error{ErrorCode::bad_input, "engine configuration",
                 "the Caching policy's first_tier() is no host memory behind the link, which a machine's is",
                 "one that changes no rate, latency or capacity"};
  return {};
}

[[gnu::cold]] SLUICE_INLINE Tier odd_tier(Replacement evicts) {
  return {TokenBlocks{12'347}, evicts, BytesPerSecond{7.3e9}, BytesPerSecond{5.1e9}, Seconds{1.7e-4}};
}

SLUICE_INLINE Tokens arriving_within(Seconds patience, Tokens fetched, const FoundPrefix& found, Tokens block_tokens) {
  if (found.lower_time <= patience) return fetched;
  if (patience <= found.lower_wait) return Tokens{0};
  const double part = (patience - found.lower_wait).count() / (found.lower_time - found.lower_wait).count();
  const auto blocks = static_cast<std::int64_t>(part * static_cast<double>(found.lower / block_tokens));
  return std::min(fetched, blocks * block_tokens);
}

[[nodiscard, gnu::cold, gnu::noinline]] SLUICE_INLINE Error refusal(ErrorCode code, RequestId id, std::string what,
                                                                    std::string expected) {
  return {code, phrase("request ", index(id), ""), std::move(what), std::move(expected)};
}

[[nodiscard, gnu::cold, gnu::noinline]] SLUICE_INLINE Error no_room(RequestId id, LayerBlocks takes,
                                                                    LayerBlocks there_are, const char* after) {
  return refusal(ErrorCode::out_of_memory, id, phrase("its KV takes ", takes.count(), after),
                 phrase("at most ", there_are.count(), ""));
}

[[gnu::cold, gnu::noinline]] SLUICE_INLINE Error refusal_of(RequestId id, Error error) {
  error.where = phrase("request ", index(id), "");
  return error;
}

[[gnu::cold]] SLUICE_INLINE Error not_alive(RequestId id) {
  return refusal(ErrorCode::not_found, id, "it is not alive", "a request that waits, runs or is preempted");
}

SLUICE_INLINE Status check_length(RequestId id, const RequestSpec& spec, const Limits& limits) {
  if (spec.prompt.count() < 1 || spec.output.count() < 1)
    return refusal(ErrorCode::bad_input, id, "it has no prompt or no output", "at least one token of each");
  const Tokens context = spec.prompt + spec.output;
  if (context > limits.max_context)
    return refusal(ErrorCode::infeasible, id, phrase("its ", context.count(), " tokens exceed the context"),
                   phrase("at most ", limits.max_context.count(), " tokens"));
  return {};
}

[[gnu::cold]] SLUICE_INLINE Status unknown_length(RequestId id) {
  return refusal(ErrorCode::unsupported, id, "its output is a bound, and this engine's Admission goes by lengths",
                 "an Admission with knows_lengths = false");
}

SLUICE_INLINE Footprint least_room(const Core& core, const Holding& least, const RequestSpec& spec) {
  const TokenBlocks blocks = blocks_for(spec.prompt + spec.output - Tokens{1}, core.limits.block_tokens);
  const auto away = static_cast<double>(blocks.count());
  const std::array<LayerStream, 2> streams{
      LayerStream{least.host, away, least.written_back ? least.host : LayerSet{}},
      LayerStream{least.hidden_on_host(), core.geometry.hidden_size().blocks(away)}};
  Footprint room = core.footprint(least, blocks);
  room.device += core.in_flight(streams);
  return room;
}

SLUICE_INLINE Status check_room(RequestId id, Footprint room, const Ledger& ledger, LayerBlocks lendable) {
  if (room.device > ledger.device().capacity() + lendable)
    return no_room(id, room.device, ledger.device().capacity() + lendable, " layer blocks of device memory");
  if (room.host > ledger.host().capacity())
    return no_room(id, room.host, ledger.host().capacity(), " layer blocks of host memory");
  return {};
}

} // namespace sluice::detail
