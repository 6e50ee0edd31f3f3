// SPDX-License-Identifier: Apache-2.0
// Checks: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/engine/core/checks.hpp"
#include "sluice/engine/core/commit_steps.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
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
  } else if (device_blocks < geometry.kv_of(TokenBlocks{1})) {
    bad.what = phrase("there is device memory for ", device_blocks.count(), " layer blocks of KV");
    bad.expected = geometry.alike() ? phrase("at least one block of each of the ", geometry.layers, " layers")
                                    : phrase("at least ", geometry.kv_of(TokenBlocks{1}).count(),
                                             ", what a request's first token takes");
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

[[gnu::cold]] SLUICE_INLINE Error feeds_otherwise() {
  return {ErrorCode::bad_input, "engine configuration",
          "the Caching policy feeds its disk with less than is written, and the machine's disk gets all of it",
          "no disk, or a policy with Feed::written"};
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

[[gnu::cold]] SLUICE_INLINE Status check_arrived(RequestId id, const RequestSpec& spec, Tokens arrived, bool alike,
                                                 bool real_time, bool rebuilds) {
  if (arrived.count() < 0 || arrived >= spec.prompt)
    return refusal(ErrorCode::bad_input, id,
                   phrase("it arrives with KV of ", arrived.count(), " tokens of its prompt of ") +
                       std::to_string(spec.prompt.count()),
                   "fewer: the last token is computed, because its output is needed");
  if (real_time || !alike)
    return refusal(ErrorCode::unsupported, id, "it arrives with KV",
                   real_time ? "a simulated engine" : "a model whose layers keep the same KV");
  if (rebuilds)
    return refusal(ErrorCode::unsupported, id, "it arrives with KV, without the hidden states to rebuild it from",
                   "an engine that rebuilds no layers");
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
      LayerStream{least.host, static_cast<double>(core.geometry.moved(blocks).count()),
                  least.written_back ? least.host : LayerSet{}},
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

// The check of every proposal.
namespace sluice {

SLUICE_INLINE ProposalMistake proposal_mistake(const Core& core, Draft& draft) {
  using Kind = ProposalMistake::Kind;
  const Proposal& proposal = draft.proposal;
  // A slot is marked with 2n by the n-th check if it leaves or is refused, and with 2n + 1 if it has a claim.
  std::vector<std::uint64_t>& seen = draft.proposed;
  if (seen.size() < core.requests.rows.size()) seen.resize(core.requests.rows.size());
  const std::uint64_t leaves = 2 * ++draft.checks, claimed = leaves + 1;
  const auto is_live = [&core](Slot slot) {
    return index(slot) < core.requests.rows.size() && core.row(slot).phase != Phase::ended;
  };
  for (const Slot slot : proposal.leaving) {
    if (!is_live(slot)) return {Kind::no_request, slot, 0};
    if (core.row(slot).phase != Phase::running) return {Kind::not_running, slot, 0};
    if (seen[index(slot)] == leaves) return {Kind::twice, slot, 0};
    seen[index(slot)] = leaves;
  }
  for (const Refusal& refused : proposal.refused) {
    if (!is_live(refused.slot)) return {Kind::no_request, refused.slot, 0};
    if (core.row(refused.slot).phase != Phase::waiting) return {Kind::not_waiting, refused.slot, 0};
    if (seen[index(refused.slot)] == leaves) return {Kind::twice, refused.slot, 0};
    seen[index(refused.slot)] = leaves;
  }
  std::size_t running = proposal.leaving.size();
  std::int64_t prompts = 0, decodes = 0;
  bool optional = false, pressing = false;
  std::int64_t batch = static_cast<std::int64_t>(proposal.claims.size());
  for (const Claim& claim : proposal.claims) {
    if (!is_live(claim.slot)) return {Kind::no_request, claim.slot, 0};
    const RequestRow& request = core.row(claim.slot);
    std::uint64_t& mark = seen[index(claim.slot)];
    if (mark == claimed) return {Kind::twice, claim.slot, 0};
    if (mark == leaves) return {Kind::leaves_too, claim.slot, 0};
    mark = claimed;
    if (claim.required && optional) return {Kind::order, claim.slot, 0};
    optional = !claim.required;
    pressing = pressing || claim.presses();
    if (claim.instead) { // it has the place of the request that pays
      --batch;
      const bool last = &claim == &proposal.claims.back() || !(&claim + 1)->required;
      const bool full = &claim - proposal.claims.data() >= core.limits.batch;
      if (!claim.presses() || !last || !full) return {Kind::instead, claim.slot, 0};
    }
    if (request.phase == Phase::preempted && !request.may_return) return {Kind::may_not, claim.slot, 0};
    const Tokens pending = request.pending();
    if (claim.tokens < Tokens{0} || claim.tokens > pending) return {Kind::tokens, claim.slot, claim.tokens.count()};
    if (claim.reserve < Tokens{0} || claim.reserve > Claim::most_reserved)
      return {Kind::reserve, claim.slot, claim.reserve.count()};
    (pending <= Tokens{1} ? decodes : prompts) += claim.tokens.count();
    running += request.phase == Phase::running ? 1 : 0;
  }
  if (pressing)
    for (bool pressed = false; const Claim& claim : proposal.claims) {
      if (pressed && claim.required && !claim.presses()) return {Kind::cost, claim.slot, 0};
      if (!claim.presses()) continue;
      pressed = true;
      const auto pays = [&](const Claim& other) {
        return other.slot == claim.at_cost_of && other.required && !other.presses() &&
               core.row(other.slot).phase == Phase::running;
      };
      if (!claim.required || core.row(claim.slot).phase == Phase::running ||
          std::none_of(proposal.claims.begin(), proposal.claims.end(), pays))
        return {Kind::cost, claim.slot, 0};
    }
  const std::int64_t most = std::max(prompts, decodes);
  if (most > core.limits.batch_tokens.count()) return {Kind::budget, {}, most};
  if (batch > std::max(0, core.limits.batch)) return {Kind::batch, {}, batch};
  if (running < core.requests.running.size())
    for (const Slot slot : core.requests.running)
      if (seen[index(slot)] != leaves && seen[index(slot)] != claimed) return {Kind::left_out, slot, 0};
  return {};
}

[[gnu::cold, gnu::noinline]] SLUICE_INLINE Error detail::impossible_proposal(const Core& core,
                                                                             const ProposalMistake& mistake,
                                                                             Seconds now) {
  using Kind = ProposalMistake::Kind;
  const std::string request = request_text(core, mistake.slot), number = std::to_string(mistake.number);
  const auto error = [&](std::string what, std::string expected) -> Error {
    std::string seconds = std::to_string(now.count());
    return {ErrorCode::infeasible, "a proposal of " + core.policies->admission_name() + " at " + seconds + " s",
            std::move(what), std::move(expected)};
  };
  switch (mistake.kind) {
  case Kind::none:
  case Kind::no_request:
    return error("it names " + request + ", which holds no live request",
                 "slots of running, preempted or waiting requests");
  case Kind::twice:
    return error("it names " + request + " twice", "each request once");
  case Kind::leaves_too:
    return error(request + " leaves or is refused, and has a claim", "one of both");
  case Kind::not_running:
    return error(request + " leaves, but does not run", "running requests in Proposal::leaving");
  case Kind::not_waiting:
    return error(request + " is refused, but has run", "requests in Proposal::refused that have never run");
  case Kind::left_out:
    return error(request + " runs and has no claim",
                 "a claim for each running request, of 0 tokens if it waits, or the "
                 "request in Proposal::leaving");
  case Kind::order:
    return error("the required claim of " + request + " comes after an optional one", "required claims first");
  case Kind::cost:
    return error(request + " presses, or is required after one that does, in a way that no request can pay for",
                 "pressing claims after the other required ones, for requests that do not run, each at the cost of a "
                 "running request that has a required claim");
  case Kind::instead:
    return error(request +
                     " takes the place of a running request without pressing, before another required claim, or in a "
                     "batch that has a place",
                 "at most one such claim, a pressing one, last of the required ones, in a full batch");
  case Kind::may_not:
    return error(request + " is preempted and may not return, but has a claim",
                 "preempted requests whose row says may_return");
  case Kind::tokens:
    return error("it claims " + number + " tokens of " + request,
                 "0 to " + std::to_string(core.row(mistake.slot).pending().count()) + ", the tokens that have no KV");
  case Kind::reserve:
    return error("it reserves room for " + number + " tokens of " + request,
                 "0 to " + std::to_string(Claim::most_reserved.count()));
  case Kind::batch:
    return error("it has " + number + " claims", "at most " + std::to_string(core.limits.batch) + ", the batch limit");
  case Kind::budget:
    return error("it claims " + number + " tokens in one iteration",
                 "at most " + std::to_string(core.limits.batch_tokens.count()) + ", the token budget");
  }
  return error("it is impossible", "another one");
}

} // namespace sluice
