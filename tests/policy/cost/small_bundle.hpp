// SPDX-License-Identifier: Apache-2.0
// A bundle of kernels whose times are closed formulas, as text.
#pragma once

#include "sluice/policy/cost/read_table_profile.hpp"

#include <memory>
#include <sstream>
#include <string>
#include <utility>

namespace sluice::testing {

inline Expected<LineReader> text_file(std::string text, const char* name = "test.csv") {
  return LineReader{std::make_unique<std::istringstream>(std::move(text)), name};
}

/// Each of the 8 kernels of a layer (the norms run twice, so 9 launches) takes 1 us and 0.1 us per token, embedding and
/// last norm the same, head and sampler 10 us and 1 us per sequence. Attention takes 5 us, 0.001 us per token that
/// decodes read and 0.01 us per token of a chunk and 0.02 us per token before it.
inline TableProfile small_bundle() {
  std::ostringstream dense, head, attention;
  dense << "layer,tokens,time_us\n";
  for (const char* kernel : {"embedding", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn",
                             "down_proj", "final_layernorm"})
    for (const int tokens : {1, 1001}) dense << kernel << ',' << tokens << ',' << 1.0 + 0.1 * tokens << '\n';
  head << "layer,sequences,time_us\n";
  for (const char* kernel : {"lm_head", "sampler"})
    for (const int sequences : {1, 101}) head << kernel << ',' << sequences << ',' << 10.0 + sequences << '\n';
  attention << "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
  for (const int chunk : {0, 10, 1000})
    for (const int past : {0, 100, 1000})
      for (const int decodes : {0, 1, 100})
        for (const int context : {0, 10, 1000}) {
          if ((chunk == 0 && (past > 0 || decodes == 0)) || (decodes == 0) != (context == 0)) continue;
          attention << chunk << ',' << past << ',' << decodes << ',' << context << ','
                    << 5.0 + 0.001 * decodes * context + 0.01 * chunk + 0.02 * past << '\n';
        }
  const Expected<TableProfile> profile =
      read_table_profile(text_file(dense.str()), text_file(head.str()), text_file(attention.str()), LinkCost{});
  SLUICE_ASSERT(profile, "the bundle is well-formed");
  return *profile;
}

} // namespace sluice::testing
