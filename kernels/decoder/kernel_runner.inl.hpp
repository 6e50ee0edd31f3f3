// SPDX-License-Identifier: Apache-2.0
// KernelRunner's layers: their tables, attention, MLPs and experts.
#pragma once

#include "kernels/decoder/kernel_runner.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace sluice::kernels {

template <KernelQueue Queue, KernelRunnerConfig config_>
template <class Segment>
void KernelRunner<Queue, config_>::copy_states(std::span<const HiddenRows> rows, const Segment& segment) {
  if (rows.empty()) return;
  const std::int64_t row_bytes = std::int64_t{shape().hidden} * static_cast<std::int64_t>(sizeof(T));
  const auto segment_of = [&](const HiddenRows& some) {
    SLUICE_ASSERT(some.first_row >= 0 && some.rows > 0 && some.first_row + some.rows <= rows_, "rows of the iteration");
    CopySegment one = segment(some, at<T>(room_.residual) + std::int64_t{some.first_row} * shape().hidden);
    one.bytes = some.rows * row_bytes;
    return one;
  };
  if (row_bytes % 16 != 0) { // the kernel copies only whole packets
    for (const HiddenRows& some : rows) {
      const CopySegment one = segment_of(some);
      queue_.copy(one.to, one.from, static_cast<std::size_t>(one.bytes));
    }
    return;
  }
  SLUICE_ASSERT(static_cast<std::int64_t>(rows.size()) <= rows_, "runs of at least one row each");
  StagedBlock block =
      staging_.block(queue_, StagedBlock::bytes_of<CopySegment>(rows.size()), at<std::byte>(room_.segments));
  const Staged<CopySegment> segments = block.take<CopySegment>(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) segments.host[i] = segment_of(rows[i]);
  staging_.upload(queue_, block);
  CopySegmentsParams copy;
  copy.segments = segments.device;
  copy.count = static_cast<int>(rows.size());
  copy.ctas = 128; // about as many as a GPU has SMs
  queue_.template launch<CopySegmentsConfig{}>(copy);
}

template <KernelQueue Queue, KernelRunnerConfig config_>
int KernelRunner<Queue, config_>::blocks_of(const SequenceRows& sequence) const {
  return pieces(sequence.position + sequence.rows, static_cast<int>(limits_.block_tokens.count()));
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::plan(std::span<const SequenceRows> sequences, int rows, [[maybe_unused]] int all) {
  // A prompt's chunk uses blocks of four warps, which read K and V once for more rows.
  constexpr int most_of_one_warp = 32;
  for (auto& list : attended_) list.clear();
  std::size_t entries = 0; // of the block table
  const std::byte* const* table = nullptr;
  std::size_t first_entry = 0;
  for (const SequenceRows& sequence : sequences) {
    SLUICE_ASSERT(sequence.rows >= 0 && sequence.first_row >= 0 && sequence.first_row + sequence.rows <= all,
                  "rows of the layer");
    AttentionRows asks{sequence.first_row, std::clamp(rows - sequence.first_row, 0, sequence.rows), sequence.position};
    const bool many = asks.rows * group() > most_of_one_warp;
    attended_[many ? 1 : 0].push_back(asks);
    asks.rows = 0;
    attended_[many ? 0 : 1].push_back(asks);
    // One sequence's fresh rows, rebuilt rows and rows that only pass follow one another and share one block table.
    if (std::exchange(table, sequence.blocks) != sequence.blocks) first_entry = entries;
    entries = std::max(entries, first_entry + static_cast<std::size_t>(blocks_of(sequence)));
  }
  // Four times the blocks that run at once, three on an SM: fewer would leave SMs idle behind the last ones.
  const int blocks = std::max(1, 12 * limits_.sms / shape().kv_heads);
  plan_attention(attended_[0], group(), 16, limits_.split_rows, blocks, plans_[0], wanted_);
  plan_attention(attended_[1], group(), 64, limits_.split_rows, blocks, plans_[1], wanted_);
  entries_ = entries;
}

/// Puts everything in one block and one copy: a layer has some hundred bytes to some hundred kilobytes.
template <KernelQueue Queue, KernelRunnerConfig config_>
auto KernelRunner<Queue, config_>::stage(const LayerWeights& weights, std::span<const SequenceRows> sequences, int all)
    -> Tables {
  const std::size_t row_count = static_cast<std::size_t>(steady_ ? rows_ : all);
  const std::size_t count = steady_ ? row_count : sequences.size(), entries = entries_;
  const auto extent = [this](const std::vector<AttentionTile>& tiles) {
    return steady_ && !tiles.empty() ? std::bit_ceil(tiles.size()) : tiles.size();
  };
  const std::size_t expert_count = experts() ? static_cast<std::size_t>(shape().experts) : 0;
  std::size_t bytes = StagedBlock::bytes_of<int>(row_count) + 2 * StagedBlock::bytes_of<int>(count) +
                      StagedBlock::bytes_of<void*>(entries) + 3 * StagedBlock::bytes_of<ProductWeights>(expert_count);
  for (const AttentionPlan& plan : plans_) {
    bytes += StagedBlock::bytes_of<AttentionTile>(extent(plan.tiles));
    bytes += StagedBlock::bytes_of<AttentionTile>(extent(plan.merged));
  }
  SLUICE_ASSERT(static_cast<std::int64_t>(bytes) <= RunnerRoom::layer_bytes(config_of_model_, limits_, rows_) &&
                    static_cast<std::int64_t>(entries) <= RunnerRoom::table_blocks(config_of_model_, limits_, rows_),
                "tables within the runner's limits");
  StagedBlock block = staging_.block(queue_, bytes, at<std::byte>(room_.layer));

  Tables tables;
  tables.head_biases = head_biases(weights);
  const auto sequence_of_row = block.take<int>(row_count);
  const auto first_block = block.take<int>(count);
  const auto stored_from = block.take<int>(count);
  std::fill_n(sequence_of_row.host, row_count, -1);
  for (const auto& list : {first_block, stored_from}) std::fill_n(list.host, count, 0);
  tables.sequences = sequence_of_row.device;
  tables.first_block = first_block.device;
  tables.stored_from = stored_from.device;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto take = [&](const std::vector<AttentionTile>& some, int& number) {
      const auto list = block.take<AttentionTile>(extent(some));
      std::fill(std::copy(some.begin(), some.end(), list.host), list.host + extent(some), no_rows);
      number = static_cast<int>(extent(some));
      return list.device;
    };
    tables.tiles[i] = take(plans_[i].tiles, tables.tile_counts[i]);
    tables.merged[i] = take(plans_[i].merged, tables.merged_counts[i]);
  }
  if (expert_count > 0) {
    const auto first = block.take<ProductWeights>(expert_count), second = block.take<ProductWeights>(expert_count),
               down = block.take<ProductWeights>(expert_count);
    const bool one = joined(weights);
    for (std::size_t e = 0; e < expert_count; ++e) {
      const MlpWeights& mlp = weights.mlps[e];
      WeightPieces gate_and_up{mlp.gate};
      if (one) gate_and_up.add(mlp.up);
      first.host[e] = gate_and_up.weights(0);
      second.host[e] = WeightPieces{mlp.up}.weights(0);
      down.host[e] = WeightPieces{mlp.down}.weights(0);
    }
    tables.gate_and_up = first.device;
    tables.up = one ? nullptr : second.device;
    tables.down = down.device;
  }
  const auto blocks = block.take<void*>(entries); // last, since their number is not rounded up
  tables.blocks = blocks.device;
  std::size_t entry = 0;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const SequenceRows& sequence = sequences[s];
    std::fill_n(sequence_of_row.host + sequence.first_row, sequence.rows, static_cast<int>(s));
    stored_from.host[s] = sequence.stored_from;
    const bool again = s > 0 && sequences[s - 1].blocks == sequence.blocks;
    const std::size_t first = again ? static_cast<std::size_t>(first_block.host[s - 1]) : entry;
    first_block.host[s] = static_cast<int>(first);
    const auto end = first + static_cast<std::size_t>(blocks_of(sequence));
    for (; entry < end; ++entry) blocks.host[entry] = sequence.blocks[entry - first];
  }
  staging_.upload(queue_, block);
  return tables;
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::launch_kernels(const LayerWeights& weights, const Tables& tables, int rows, int all,
                                                  std::span<const HiddenRows> kept) {
  normalise(weights.attention_norm, weights.attention_norm_bias, all);
  copy_states(kept, [](const HiddenRows& some, T* row) { // after the norm, which adds the experts' results
    return CopySegment{row, some.states, 0};
  });
  project_heads(weights, rows, all);
  place_heads(weights, tables, rows, all);
  if (rows == 0) return;
  attend(tables);
  add(WeightPieces{weights.output}, weights.output_bias, at<T>(room_.first), rows);
  normalise(weights.mlp_norm, weights.mlp_norm_bias, rows);
  if (config_of_model_.mlp == MlpKind::experts)
    launch_experts(weights, tables, rows);
  else
    launch_mlp(weights, rows);
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::project_heads(const LayerWeights& weights, int rows, int all) {
  T* const heads = at<T>(room_.first);
  const int stride = queries() + 2 * keys();
  const T* const x = at<T>(room_.normed);
  WeightPieces pieces;
  if (rows == all) {
    pieces.add(weights.query);
  } else if (rows > 0) {
    multiply(WeightPieces{weights.query}, call(x, shape().hidden, rows, heads, stride));
  }
  pieces.add(weights.key);
  pieces.add(weights.value);
  multiply(pieces, call(x, shape().hidden, all, rows == all ? heads : heads + queries(), stride));
}

/// RopeAndStore adds biases after the product is rounded; it takes them as one vector.
template <KernelQueue Queue, KernelRunnerConfig config_>
const void* KernelRunner<Queue, config_>::head_biases(const LayerWeights& weights) {
  if (weights.query_bias.empty()) return nullptr;
  const T* const query = static_cast<const T*>(data(weights.query_bias));
  const T* const key = static_cast<const T*>(data(weights.key_bias));
  const T* const value = static_cast<const T*>(data(weights.value_bias));
  if (key == query + queries() && value == key + keys()) return query;
  T* const all = at<T>(room_.biases);
  const auto query_count = static_cast<std::size_t>(queries()), key_count = static_cast<std::size_t>(keys());
  queue_.copy(all, query, query_count * sizeof(T));
  queue_.copy(all + query_count, key, key_count * sizeof(T));
  queue_.copy(all + query_count + key_count, value, key_count * sizeof(T));
  return all;
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::place_heads(const LayerWeights& weights, const Tables& tables, int rows, int all) {
  RopeAndStoreParams place;
  place.qkv = at<T>(room_.first);
  place.qkv_bias = tables.head_biases;
  place.query_norm = data(weights.query_norm);
  place.key_norm = data(weights.key_norm);
  place.turns = config_of_model_.position == PositionKind::rotary ? at<double>(room_.turns) : nullptr;
  place.positions = position_of_row_;
  place.sequences = tables.sequences;
  place.stored_from = tables.stored_from;
  place.first_block = tables.first_block;
  place.blocks = tables.blocks;
  place.query = at<T>(room_.second);
  place.query_stride = queries();
  place.rows = all;
  place.query_rows = rows;
  place.heads = shape().heads;
  place.kv_heads = shape().kv_heads;
  place.block_tokens = static_cast<int>(limits_.block_tokens.count());
  place.epsilon = config_of_model_.norm_epsilon;
  queue_.template launch<RopeAndStoreConfig{.element = config_.element, .head_dim = config_.head_dim}>(place);
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::attend(const Tables& tables) {
  attend<1>(tables, 0); // it also merges, so that the partial rows' memory can be reused
  attend<4>(tables, 1);
}

template <KernelQueue Queue, KernelRunnerConfig config_>
template <int warps>
void KernelRunner<Queue, config_>::attend(const Tables& tables, int which) {
  if (tables.tile_counts[which] == 0) return;
  PagedAttentionParams attend;
  attend.query = at<T>(room_.second);
  attend.result = at<T>(room_.first);
  attend.query_stride = attend.result_stride = queries();
  attend.blocks = tables.blocks;
  attend.first_block = tables.first_block;
  attend.block_tokens = Divisor{static_cast<int>(limits_.block_tokens.count())};
  attend.tiles = tables.tiles[which];
  attend.tile_count = tables.tile_counts[which];
  attend.kv_heads = shape().kv_heads;
  attend.group = group();
  attend.scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim));
  attend.values = at<float>(room_.values);
  attend.maxima = at<float>(room_.maxima);
  attend.totals = at<float>(room_.totals);
  queue_.template launch<PagedAttentionConfig{
      .element = config_.element, .head_dim = config_.head_dim, .warps = warps, .stages = 2}>(attend);
  if (tables.merged_counts[which] == 0) return;
  MergeSegmentsParams merge;
  merge.merged = tables.merged[which];
  merge.merged_count = tables.merged_counts[which];
  merge.kv_heads = attend.kv_heads;
  merge.group = attend.group;
  merge.values = attend.values;
  merge.maxima = attend.maxima;
  merge.totals = attend.totals;
  merge.result = attend.result;
  merge.result_stride = attend.result_stride;
  queue_.template launch<MergeSegmentsConfig{.element = config_.element, .head_dim = config_.head_dim}>(merge);
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::activate(const LayerWeights& weights, int rows) {
  ActivationParams activation;
  activation.gate = at<T>(room_.first);
  activation.gate_stride = activation.up_stride = (gated() ? 2 : 1) * mlp();
  activation.out = at<T>(room_.second);
  activation.rows = rows;
  activation.features = mlp();
  if (gated()) {
    activation.up = at<T>(room_.first) + mlp();
    activation.up_bias = data(weights.up_bias);
    queue_.template launch<ActivationConfig{.element = config_.element, .kind = ActivationKind::silu, .gated = true}>(
        activation);
  } else {
    activation.gate_bias = data(weights.up_bias);
    queue_.template launch<ActivationConfig{.element = config_.element, .kind = ActivationKind::relu, .gated = false}>(
        activation);
  }
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::launch_mlp(const LayerWeights& weights, int rows) {
  const MlpWeights& matrices = weights.mlps[0];
  WeightPieces up;
  if (gated()) up.add(matrices.gate);
  up.add(matrices.up);
  multiply(up, call(at<T>(room_.normed), shape().hidden, rows, at<T>(room_.first), (gated() ? 2 : 1) * mlp()));
  activate(weights, rows);
  add(WeightPieces{matrices.down}, weights.down_bias, at<T>(room_.second), rows);
}

template <KernelQueue Queue, KernelRunnerConfig config_>
bool KernelRunner<Queue, config_>::joined(const LayerWeights& weights) {
  return std::all_of(weights.mlps.begin(), weights.mlps.end(), [](const MlpWeights& mlp) {
    WeightPieces both{mlp.gate};
    both.add(mlp.up);
    return both.products() == 1;
  });
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::multiply_grouped(const ProductWeights* table, const T* x, int inputs, T* y,
                                                    int outputs, int y_stride, int rows) {
  GroupedProductParams product;
  product.x = x;
  product.weights = table;
  product.offsets = at<int>(room_.offsets);
  product.y = y;
  product.x_stride = inputs;
  product.y_stride = y_stride;
  product.rows = rows;
  product.experts = shape().experts;
  product.outputs = outputs;
  product.inputs = inputs;
  product.element = config_.element;
  switch (tile_rows_for(rows / shape().experts)) { // rows per expert, on average
  case 16:
    queue_.template launch<GroupedProductConfig{.element = config_.element, .tile_rows = 16}>(product);
    break;
  case 64:
    queue_.template launch<GroupedProductConfig{.element = config_.element, .tile_rows = 64}>(product);
    break;
  default:
    queue_.template launch<GroupedProductConfig{.element = config_.element, .tile_rows = 128}>(product);
  }
}

/// The router's logits are f32, so that rounding does not decide between experts.
template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::launch_experts(const LayerWeights& weights, const Tables& tables, int rows) {
  const int taken = shape().experts_per_token, hidden = shape().hidden, passes = rows * taken;
  T* const gathered = at<T>(room_.gathered);
  T* const gate = at<T>(room_.first);
  ProductCall router = call(at<T>(room_.normed), hidden, rows, at<float>(room_.router), shape().experts);
  router.wide = true;
  multiply(WeightPieces{weights.router}, router);
  queue_.template launch<RouteConfig{.element = ElementType::f32}>(RouteParams{.logits = at<float>(room_.router),
                                                                               .chosen = at<int>(room_.chosen),
                                                                               .shares = at<float>(room_.shares),
                                                                               .rows = rows,
                                                                               .experts = shape().experts,
                                                                               .taken = taken});
  queue_.template launch<PlaceConfig{}>(PlaceParams{.chosen = at<int>(room_.chosen),
                                                    .offsets = at<int>(room_.offsets),
                                                    .slots = at<int>(room_.slots),
                                                    .assignments = passes,
                                                    .experts = shape().experts});
  queue_.template launch<GatherRowsConfig{.element = config_.element}>(GatherRowsParams{.x = at<T>(room_.normed),
                                                                                        .slots = at<int>(room_.slots),
                                                                                        .gathered = gathered,
                                                                                        .rows = rows,
                                                                                        .taken = taken,
                                                                                        .features = hidden});
  const bool one = tables.up == nullptr;
  multiply_grouped(tables.gate_and_up, gathered, hidden, gate, (one ? 2 : 1) * mlp(), 2 * mlp(), passes);
  if (!one) multiply_grouped(tables.up, gathered, hidden, gate + mlp(), mlp(), 2 * mlp(), passes);
  activate(weights, passes);
  multiply_grouped(tables.down, at<T>(room_.second), mlp(), gathered, hidden, hidden, passes);
  queue_.template launch<ScatterRowsConfig{.element = config_.element}>(
      ScatterRowsParams{.gathered = gathered,
                        .slots = at<int>(room_.slots),
                        .shares = at<float>(room_.shares),
                        .out = at<T>(room_.scattered),
                        .rows = rows,
                        .taken = taken,
                        .features = hidden});
  adds_scattered_ = true;
}

} // namespace sluice::kernels
