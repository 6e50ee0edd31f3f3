// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/world/local/rates.hpp"

#include "world/local/counting_decoder.hpp"
#include <doctest/doctest.h>

using namespace sluice;

TEST_CASE("rates are measured with the decoder's own layers, for one row and for many") {
  const ModelWeights weights = tiny_llama();
  testing::CountingDecoder decoder{weights.config};
  Limits limits;
  limits.batch_tokens = Tokens{48};
  const LocalRates rates = measure_rates(weights, decoder, limits);
  CHECK(decoder.begun == 2);
  CHECK(decoder.layers >= 4);
  CHECK(decoder.layers <= 12);
  CHECK(decoder.most_rows == 48);
  CHECK(rates.reading.count() > 0);
  CHECK(rates.computing.count() > 0);
  CHECK(rates.copying.count() > 0);
  CHECK(rates.took.count() > 0);
}

TEST_CASE("a stated link rate is kept; otherwise the link is as fast as copying memory") {
  LocalRates rates;
  rates.reading = BytesPerSecond{10e9};
  rates.computing = FlopsPerSecond{50e9};
  rates.copying = BytesPerSecond{7e9};
  const Device stated = measured_device(rates, {2e9, 1e9, true});
  CHECK(stated.host_to_device == BytesPerSecond{2e9});
  CHECK(stated.device_to_host == BytesPerSecond{1e9});
  CHECK(stated.lanes == Lanes::each_way);
  const Device unlimited = measured_device(rates, {});
  CHECK(unlimited.host_to_device == BytesPerSecond{7e9});
  CHECK(unlimited.device_to_host == BytesPerSecond{7e9});
  CHECK(unlimited.lanes == Lanes::shared);
  // Its roofline predicts the measurement: one row reads a layer at `reading`.
  const ModelShape shape = tiny_llama_config().shape;
  Work one;
  one.decodes = 1;
  one.decode_context = Tokens{1};
  const double layer_s = Roofline{shape, unlimited}.step(one).layer.count();
  CHECK(layer_s >= LayerWork(shape).weight_bytes(Tokens{1}) / 10e9);
  CHECK(layer_s <= 1.5 * LayerWork(shape).weight_bytes(Tokens{1}) / 10e9);
}
