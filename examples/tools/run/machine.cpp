// SPDX-License-Identifier: Apache-2.0
// The one translation unit that compiles decoders and the machine.
#include "run/machine.hpp"

#include "sluice/model/decoder/eigen/make_decoder.hpp"
#include "sluice/world/local/rates.hpp"

#include <utility>

namespace running {

using namespace sluice;

std::unique_ptr<Decoder> make_decoder(const ModelWeights& weights, Tokens block_tokens, int threads) {
  return sluice::make_decoder(weights, block_tokens, threads);
}

LocalRates rates_of(const ModelWeights& weights, Decoder& decoder, const Limits& limits, bool host_attends) {
  LocalRates rates = measure_rates(weights, decoder, limits);
  if (host_attends) {
    const HostAttentionRate host = measure_host_attention(weights, decoder, limits);
    rates.attending = host.rate;
    rates.attending_launch = host.launch;
  }
  return rates;
}

Expected<std::shared_ptr<CpuMachine>> make_machine(ModelWeights weights, std::unique_ptr<Decoder> decoder,
                                                   const MachineSetup& setup, TokenListener listener) {
  return make_cpu_machine(std::move(weights), std::move(decoder), setup, std::move(listener));
}

} // namespace running
