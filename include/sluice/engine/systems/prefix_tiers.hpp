// SPDX-License-Identifier: Apache-2.0
// Systems that keep shared prefixes in host memory: LMCache and SGLang's HiCache.
#pragma once

#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/caching/if_faster.hpp"
#include "sluice/policy/caching/write_through.hpp"

namespace sluice {

/// LMCache's CPU backend under vLLM (v1 connector, defaults): whole chunks of 256 tokens of prompts
/// (`save_decode_cache` is false), written and loaded in the step itself (`use_layerwise` is false), so that an
/// iteration waits for both.
struct LmcacheRule : BasicWriteThrough<Writes::waited> {
  constexpr LmcacheRule()
      : BasicWriteThrough{.chunk = Tokens{256}, .least = Tokens{1}, .saves_answers = false, .layerwise = false} {}
};

/// SGLang's HiCache with `write_through` (after the first use): pages of prompts and answers go to the host in the
/// background, and come back from 10 tokens on (`load_back_threshold`), layer by layer beside the computation.
struct HiCacheRule : WriteThrough {
  constexpr HiCacheRule()
      : BasicWriteThrough{.chunk = Tokens{1}, .least = Tokens{10}, .saves_answers = true, .layerwise = true} {}
};

/// vLLM's prefix caching with LMCache's host memory.
using Lmcache = With<VllmPrefixCaching, LmcacheRule>;
/// The same scheduler with HiCache's host memory: the two differ in the host memory only.
using HiCache = With<VllmPrefixCaching, HiCacheRule>;
/// HiCache that loads only what is faster to load than to compute, as proposed for vLLM (vllm#35343).
using HiCacheIfFaster = With<VllmPrefixCaching, IfFaster<HiCacheRule>>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<Lmcache::composition>;
extern template class BasicEngine<HiCache::composition>;
extern template class BasicEngine<HiCacheIfFaster::composition>;
#endif

} // namespace sluice
