// SPDX-License-Identifier: Apache-2.0
#include "plan/vllm_offload.hpp"

#include "sluice/model/device/nlohmann/device_json.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/weights/interval_source.hpp"
#include "sluice/report/number_text.hpp"

#include "shared/kv_dtype.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace planned {

using namespace sluice;

namespace {

/// vLLM's numbers: of every `group` layers the last `number` are on the host, and `ahead` layers are fetched ahead,
/// each into a buffer of its own on the device (vllm/config/offload.py).
struct Offload {
  int group = 0, number = 0, ahead = 0;
  WeightsLevel level;
  Seconds step{0};
};

LayerSet offloaded(int layers, int group, int number) {
  LayerSet set;
  for (int layer = 0; layer < layers; ++layer)
    if (layer % group >= group - number) set.insert(layer);
  return set;
}

/// The best offload within the SLO: it frees most memory; among equals, it fetches fewest layers ahead, takes a
/// shorter step by a thousandth or more, has fewest layers in a group, and the longest groups. `shortest` becomes the
/// shortest step of any offload that frees memory. `group` is 0 if none is within the SLO. Groups with one layer
/// offloaded are Select-N's intervals; more of them offload more than half of the layers.
Offload best_offload(const Roofline& cost, const Geometry& geometry, const Work& work, Seconds slo, Seconds& shortest) {
  constexpr int most_ahead = 4;
  Offload best;
  StreamedStep step;
  for (int ahead = 1; ahead <= most_ahead; ++ahead)
    for (int number = 1; number < geometry.layers; ++number)
      for (int group = geometry.layers; group > number || group == 1; --group) {
        const LayerSet streamed = offloaded(geometry.layers, group, number);
        const int freed = streamed.count() - ahead;
        if (freed < 1 || (best.group > 0 && freed < best.level.plan.level)) continue;
        Offload one{group, number, ahead, WeightsLevel::of(geometry, streamed, ahead), {}};
        one.step = step.of(cost, geometry, work, one.level.plan);
        shortest = std::min(shortest, one.step);
        if (one.step > slo) continue;
        const bool more = best.group == 0 || freed > best.level.plan.level;
        if (more || (ahead == best.ahead && one.step.count() < 0.999 * best.step.count())) best = one;
      }
  return best;
}

} // namespace

Status print_vllm_offload(const OffloadQuestion& question) {
  const Expected<int> kv_bytes = read_kv_dtype(question.kv_dtype);
  if (!kv_bytes) return kv_bytes.error();
  const Expected<ModelShape> model = find_or_read_model(question.model, *kv_bytes);
  if (!model) return model.error();
  const Expected<Device> device = find_or_read_device(question.device);
  if (!device) return device.error();
  constexpr Tokens block{16};
  const Geometry geometry{model->layers, model->layer_block_bytes(block), model->layer_weight_bytes(),
                          model->layer_hidden_bytes(block)};
  const Roofline cost{*model, *device};
  RecordedWork works;
  const Work& work = works.of(InferencePhase::decode, question.batch, Tokens{question.context});
  const Seconds slo{question.slo_s}, resident = cost.step(work).total(geometry.layers);
  const std::string asked = "a step of " + std::to_string(question.batch) + " requests with " +
                            std::to_string(question.context) + " tokens each";
  if (resident > slo)
    return Error{ErrorCode::infeasible, "--slo-tbt",
                 asked + " takes " + time_text(resident.count()) + " with nothing offloaded", "at least that"};
  Seconds shortest{1e300};
  const Offload best = best_offload(cost, geometry, work, slo, shortest);
  if (best.group == 0)
    return Error{ErrorCode::infeasible, "--slo-tbt",
                 asked + " takes " + time_text(shortest.count()) + " with the least that frees memory",
                 "at least that"};
  const auto gigabytes = [](double bytes) { return short_text(bytes / 1e9) + " GB"; };
  const double layer = static_cast<double>(geometry.layer_weight_bytes.count());
  const double memory = static_cast<double>(device->memory.count());
  // Buffers are among what stays: `level` counts the layers offloaded less those that are fetched ahead.
  const double stays = static_cast<double>(model->weight_bytes().count()) - layer * best.level.plan.level;
  const double blocks = std::ceil(static_cast<double>(question.context) / static_cast<double>(block.count()));
  const double kv = static_cast<double>(geometry.layer_block_bytes.count()) * geometry.layers * blocks *
                    static_cast<double>(question.batch);
  if (stays + kv > memory)
    return Error{ErrorCode::infeasible, "--device",
                 "with the most offloaded that --slo-tbt permits, " + gigabytes(stays) +
                     " of weights and buffers and " + gigabytes(kv) + " of KV stay, and " + device->name + " has " +
                     gigabytes(memory),
                 "a longer --slo-tbt, fewer --decodes or --context-tokens, or more memory"};
  std::printf("--offload-group-size %d --offload-num-in-group %d --offload-prefetch-step %d\n", best.group, best.number,
              best.ahead);
  std::printf("step      %s of %s (%s with nothing offloaded): %s on %s\n", time_text(best.step.count()).c_str(),
              time_text(slo.count()).c_str(), time_text(resident.count()).c_str(), asked.c_str(), device->name.c_str());
  std::printf("offloads  %d of %d layers, %s, through %d buffer%s of %s\n", best.level.plan.streamed.count(),
              geometry.layers, gigabytes(layer * best.level.plan.streamed.count()).c_str(), best.ahead,
              best.ahead == 1 ? "" : "s", gigabytes(layer).c_str());
  std::printf("frees     %s; %s of weights and buffers and %s of KV stay, of %s of memory\n",
              gigabytes(layer * best.level.plan.level).c_str(), gigabytes(stays).c_str(), gigabytes(kv).c_str(),
              gigabytes(memory).c_str());
  return {};
}

} // namespace planned
