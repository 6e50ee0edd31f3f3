// SPDX-License-Identifier: Apache-2.0
// Systems that keep shared prefixes below the device: vLLM's offloading connector, LMCache, HiCache, KVBM, Mooncake.
#pragma once

#include "sluice/engine/caching.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/oldest_session_first.hpp"
#include "sluice/policy/caching/if_faster.hpp"
#include "sluice/policy/caching/least_waste.hpp"
#include "sluice/policy/caching/meet_in_the_middle.hpp"
#include "sluice/policy/caching/pauses_when_slow.hpp"
#include "sluice/policy/caching/pin_sessions.hpp"
#include "sluice/policy/caching/queue_aware.hpp"
#include "sluice/policy/caching/soonest_first.hpp"
#include "sluice/policy/caching/with_hints.hpp"
#include "sluice/policy/caching/within_slos.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/policy/retention/keep_by_hints.hpp"

namespace sluice {

/// vLLM's offloading connector (vllm/v1/kv_offload, defaults): full blocks of prompts (`offload_prompt_only`) go to the
/// host behind the computation, and from there to every lower tier. A request whose prefix is below the device waits
/// until all of it has arrived; what is on a disk goes to the host first.
struct VllmOffloadRule : WriteThrough {
  constexpr VllmOffloadRule() {
    saves_answers = false;
    mode = LoadMode::ahead;
  }
};

/// LMCache's CPU backend under vLLM (v1 connector, defaults): whole chunks of 256 tokens of prompts
/// (`save_decode_cache` is false), written and loaded in the step itself (`use_layerwise` is false), so that an
/// iteration waits for both.
struct LmcacheRule : BasicWriteThrough<Writes::waited> {
  constexpr LmcacheRule() {
    chunk = Tokens{256};
    saves_answers = false;
    mode = LoadMode::whole;
  }
};

/// SGLang's HiCache: pages of prompts and answers come back from 10 tokens on (`load_back_threshold`), layer by layer
/// beside the computation. From a storage below the host they are prefetched from 256 tokens on, for at most 1 s and
/// 0.25 s per 1,024 tokens (`timeout`). `Writes::behind` is `write_through` (after the first use), `Writes::evicted`
/// `write_back`.
template <Writes W>
struct BasicHiCacheRule : BasicWriteThrough<W> {
  constexpr BasicHiCacheRule() {
    this->least = Tokens{10};
    this->least_fetched = Tokens{256};
    this->patience = Seconds{1};
    this->patience_per_token = Seconds{0.25 / 1024};
  }
};
struct HiCacheRule : BasicHiCacheRule<Writes::behind> {};
struct HiCacheBackRule : BasicHiCacheRule<Writes::evicted> {};

/// NVIDIA Dynamo's KVBM: every block goes to the host, and from there to the disk when it is used a second time.
/// Requests wait for what they load.
struct KvbmRule : BasicWriteThrough<Writes::behind, Feed::used_again> {
  constexpr KvbmRule() { mode = LoadMode::ahead; }
};

/// Mooncake Store: the first tier is a pool of the hosts' memory, reached over RDMA; what it evicts goes to an SSD.
struct MooncakeStoreRule : BasicWriteThrough<Writes::behind, Feed::evicted> {
  constexpr MooncakeStoreRule() { mode = LoadMode::ahead; }
  /// The host's memory as a pool, behind a network adapter of 200 Gb/s each way, one per device.
  [[nodiscard]] static Tier first_tier(Tier host) {
    host.read_rate = host.write_rate = BytesPerSecond{25e9};
    host.latency = Seconds{10e-6};
    return host;
  }
};

/// vLLM's prefix caching with its own offloading connector.
using VllmOffload = With<VllmPrefixCaching, VllmOffloadRule>;
/// The same scheduler with LMCache's host memory.
using Lmcache = With<VllmPrefixCaching, LmcacheRule>;
/// The same scheduler with HiCache's host memory: all differ in the tiers only.
using HiCache = With<VllmPrefixCaching, HiCacheRule>;
/// HiCache that writes what the device overwrites.
using HiCacheBack = With<VllmPrefixCaching, HiCacheBackRule>;
/// HiCache that loads only what is faster to load than to compute, as proposed for vLLM (vllm#35343).
using HiCacheIfFaster = With<VllmPrefixCaching, IfFaster<HiCacheRule>>;
/// HiCache that chooses how much of a found prefix to load, and how, so that requests miss their SLOs least.
using HiCacheWithinSlos = With<VllmPrefixCaching, WithinSlos<HiCacheRule>>;
/// The same scheduler with KVBM's tiers.
using Kvbm = With<VllmPrefixCaching, KvbmRule>;
/// The same scheduler with Mooncake's pool.
using MooncakeStore = With<VllmPrefixCaching, MooncakeStoreRule>;
/// Cake's cut: the end of a found prefix is loaded while the beginning is computed, so that both take equally long.
using Cake = With<VllmPrefixCaching, MeetInTheMiddle<WriteThrough>>;
/// OrbitFlow with the host's memory for both: offloaded layers of running requests, and prefixes of ended ones in what
/// those leave. The device keeps nothing of ended requests.
using OrbitFlowCached = With<OrbitFlowPool, HiCacheRule>;
/// CachedAttention: the queue says what is fetched from the disk, and what the host evicts last.
using CachedAttention = With<VllmPrefixCaching, QueueAware>;
/// vLLM's offloading connector as vllm#35343 proposes it: it pauses while first tokens are slower than at first, and
/// loads only what is faster to load than to compute.
using AdaptiveOffload = With<VllmPrefixCaching, PausesWhenSlow<IfFaster<VllmOffloadRule>>>;

/// Continuum: programs first come, first served; a program's KV stays on the device for 2 s after each answer.
using Continuum = With<VllmPrefixCaching, OldestSessionFirst, PinSessions>;

/// InferCept: preserve, swap or discard by least waste; what it brings back it loads layer by layer, or computes again.
using InferCept = With<VllmPrefixCaching, IfFaster<LeastWaste>>;

/// KVFlow's idea: clients say when they come back, and the host keeps and fetches the KV of those that return the
/// soonest.
using KvFlow = With<VllmPrefixCaching, KeepByHints, SoonestFirst>;

/// HiCache for clients that give a TTL of their own, keep a part, release, or announce their return.
using HiCacheHints = With<VllmPrefixCaching, KeepByHints, WithHints<HiCacheRule>>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<VllmOffload::composition>;
extern template class BasicEngine<Lmcache::composition>;
extern template class BasicEngine<HiCache::composition>;
extern template class BasicEngine<HiCacheBack::composition>;
extern template class BasicEngine<HiCacheIfFaster::composition>;
extern template class BasicEngine<HiCacheWithinSlos::composition>;
extern template class BasicEngine<Kvbm::composition>;
extern template class BasicEngine<MooncakeStore::composition>;
extern template class BasicEngine<Cake::composition>;
extern template class BasicEngine<OrbitFlowCached::composition>;
extern template class BasicEngine<CachedAttention::composition>;
extern template class BasicEngine<AdaptiveOffload::composition>;
extern template class BasicEngine<Continuum::composition>;
extern template class BasicEngine<InferCept::composition>;
extern template class BasicEngine<KvFlow::composition>;
extern template class BasicEngine<HiCacheHints::composition>;
#endif

} // namespace sluice
