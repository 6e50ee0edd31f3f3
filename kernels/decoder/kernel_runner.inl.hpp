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
  staging_.upload(block);
  upload();
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
  for (const SequenceRows& sequence : sequences) {
    SLUICE_ASSERT(sequence.rows >= 0 && sequence.first_row >= 0 && sequence.first_row + sequence.rows <= all,
                  "rows of the layer");
    AttentionRows asks{sequence.first_row, std::clamp(rows - sequence.first_row, 0, sequence.rows), sequence.position};
    const bool many = asks.rows * group() > most_of_one_warp;
    attended_[many ? 1 : 0].push_back(asks);
    asks.rows = 0;
    attended_[many ? 0 : 1].push_back(asks);
  }
  // Four times the blocks that run at once, three on an SM: fewer would leave SMs idle behind the last ones.
  const int blocks = std::max(1, 12 * limits_.sms / shape().kv_heads);
  plan_attention(attended_[0], group(), 16, limits_.split_rows, blocks, plans_[0], wanted_);
  plan_attention(attended_[1], group(), 64, limits_.split_rows, blocks, plans_[1], wanted_);
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::list_rows(std::span<const SequenceRows> sequences, int rows, int all,
                                             bool only_computes) {
  const auto same_rows = [](const SequenceRows& a, const SequenceRows& b) {
    return a.first_row == b.first_row && a.rows == b.rows && a.position == b.position && a.stored_from == b.stored_from;
  };
  const bool same = !listed_.empty() && rows == listed_live_ && all == listed_all_ &&
                    std::equal(sequences.begin(), sequences.end(), listed_.begin(), listed_.end(), same_rows);
  if (!same) plan(sequences, rows, all);
  steady_ = steady_ && rows == given_rows_ && only_computes && static_cast<int>(sequences.size()) <= rows_ &&
            plans_[1].tiles.empty();
  if (same && steady_ == listed_steady_) return;
  listed_.assign(sequences.begin(), sequences.end());
  listed_live_ = rows;
  listed_all_ = all;
  listed_steady_ = steady_;

  const auto row_count = static_cast<std::size_t>(steady_ ? rows_ : all);
  const std::size_t count = steady_ ? row_count : sequences.size();
  const auto extent = [this](const std::vector<AttentionTile>& tiles) {
    return steady_ && !tiles.empty() ? std::bit_ceil(tiles.size()) : tiles.size();
  };
  std::size_t bytes = StagedBlock::bytes_of<int>(row_count) + StagedBlock::bytes_of<int>(count);
  for (const AttentionPlan& plan : plans_) {
    bytes += StagedBlock::bytes_of<AttentionTile>(extent(plan.tiles));
    bytes += StagedBlock::bytes_of<AttentionTile>(extent(plan.merged));
  }
  SLUICE_ASSERT(static_cast<std::int64_t>(bytes) <= RunnerRoom::layer_bytes(config_of_model_, limits_, rows_),
                "rows and tiles within the runner's limits");
  StagedBlock block = staging_.block(queue_, bytes, at<std::byte>(room_.layer));
  const auto sequence_of_row = block.take<int>(row_count);
  const auto stored_from = block.take<int>(count);
  std::fill_n(sequence_of_row.host, row_count, -1);
  std::fill_n(stored_from.host, count, 0);
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    std::fill_n(sequence_of_row.host + sequences[s].first_row, sequences[s].rows, static_cast<int>(s));
    stored_from.host[s] = sequences[s].stored_from;
  }
  tables_.sequences = sequence_of_row.device;
  tables_.stored_from = stored_from.device;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto take = [&](const std::vector<AttentionTile>& some, int& number) {
      const auto list = block.take<AttentionTile>(extent(some));
      std::fill(std::copy(some.begin(), some.end(), list.host), list.host + extent(some), no_rows);
      number = static_cast<int>(extent(some));
      return list.device;
    };
    tables_.tiles[i] = take(plans_[i].tiles, tables_.tile_counts[i]);
    tables_.merged[i] = take(plans_[i].merged, tables_.merged_counts[i]);
  }
  staging_.upload(block);
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::list_blocks(int layer, std::span<const SequenceRows> sequences) {
  const auto entries_at = [this](std::int64_t region) { // from the first kept entry on
    return static_cast<int>((region - room_.kept) / static_cast<std::int64_t>(sizeof(void*)));
  };
  first_block_.assign(steady_ ? static_cast<std::size_t>(rows_) : sequences.size(), 0);
  own_.clear();
  int own = 0; // entries of the launch's own tables
  for (std::size_t s = 0, next = 0; s < sequences.size(); s = next) {
    const SequenceRows& one = sequences[s];
    int blocks = 0; // of the table, which a sequence's fresh rows, rebuilt rows and rows that only pass share
    for (; next < sequences.size() && sequences[next].blocks == one.blocks; ++next)
      blocks = std::max(blocks, blocks_of(sequences[next]));
    KeptTables::Table* const kept = one.table >= 0 ? kept_.of(layer, one.table, blocks) : nullptr;
    if (kept != nullptr) update(*kept, one.known, blocks, one.blocks);
    const int first = kept != nullptr ? kept->first : entries_at(room_.own_blocks) + own;
    std::fill_n(first_block_.begin() + static_cast<std::ptrdiff_t>(s), next - s, first);
    if (kept != nullptr) continue;
    own_.emplace_back(one.blocks, blocks);
    own += blocks;
  }
  has_own_[static_cast<std::size_t>(layer)] = own > 0;
  if (own > 0) {
    SLUICE_ASSERT(own <= RunnerRoom::table_blocks(config_of_model_, limits_, rows_),
                  "tables within the runner's limits");
    const auto count = static_cast<std::size_t>(own);
    StagedBlock block = staging_.block(queue_, StagedBlock::bytes_of<void*>(count), at<std::byte>(room_.own_blocks));
    void** to = block.take<void*>(count).host;
    for (const auto& [blocks, many] : own_) to = std::copy_n(blocks, many, to);
    staging_.upload(block);
  }
  list_first_blocks(layer, first_block_);
  tables_.first_block = at<int>(room_.first_block) + layer * RunnerRoom::first_stride(rows_);
  tables_.blocks = at<void*>(room_.kept);
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::list_first_blocks(int layer, const std::vector<int>& list) {
  std::vector<int>& there = first_blocks_[static_cast<std::size_t>(layer)];
  if (there == list) return;
  SLUICE_ASSERT(static_cast<std::int64_t>(list.size()) <= rows_, "sequences of at least one row each");
  there = list;
  StagedBlock block = staging_.block(queue_, StagedBlock::bytes_of<int>(list.size()),
                                     at<std::byte>(room_.first_block) +
                                         layer * RunnerRoom::first_stride(rows_) * std::int64_t{sizeof(int)});
  std::copy(list.begin(), list.end(), block.take<int>(list.size()).host);
  staging_.upload(block);
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::expect_first_blocks(int layer, std::span<const SequenceRows> sequences) {
  for (int other = 0; other < shape().layers; ++other) {
    if (other == layer || has_own_[static_cast<std::size_t>(other)]) continue;
    bool all = true;
    first_block_.assign(static_cast<std::size_t>(rows_), 0);
    for (std::size_t s = 0; all && s < sequences.size(); ++s) {
      const KeptTables::Table* const kept = sequences[s].table >= 0 ? kept_.find(other, sequences[s].table) : nullptr;
      all = kept != nullptr;
      if (all) first_block_[s] = kept->first;
    }
    if (all) list_first_blocks(other, first_block_);
  }
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::update(KeptTables::Table& table, int from, int to, std::byte* const* addresses) {
  from = std::min(from, table.entries);
  table.entries = from; // the device's entries from there on are others
  if (from >= to) return;
  from -= from % 2; // whole packets
  const auto count = static_cast<std::size_t>(to - from);
  StagedBlock block = staging_.block(queue_, StagedBlock::bytes_of<void*>(count),
                                     reinterpret_cast<std::byte*>(at<void*>(room_.kept) + table.first + from));
  std::copy_n(addresses + from, count, block.take<void*>(count).host);
  staging_.upload(block);
  table.entries = to;
}

template <KernelQueue Queue, KernelRunnerConfig config_>
void KernelRunner<Queue, config_>::list_experts(int layer, const LayerWeights& weights) {
  const auto count = static_cast<std::size_t>(shape().experts);
  const bool one = joined(weights);
  wanted_places_.resize(3 * count);
  for (std::size_t e = 0; e < count; ++e) {
    const MlpWeights& mlp = weights.mlps[e];
    WeightPieces gate_and_up{mlp.gate};
    if (one) gate_and_up.add(mlp.up);
    wanted_places_[e] = gate_and_up.weights(0);
    wanted_places_[count + e] = WeightPieces{mlp.up}.weights(0);
    wanted_places_[2 * count + e] = WeightPieces{mlp.down}.weights(0);
  }
  const std::int64_t bytes = RunnerRoom::expert_bytes(config_of_model_), region = room_.experts + 3 * layer * bytes;
  tables_.gate_and_up = at<ProductWeights>(region);
  tables_.up = one ? nullptr : at<ProductWeights>(region + bytes);
  tables_.down = at<ProductWeights>(region + 2 * bytes);
  std::vector<ProductWeights>& there = expert_places_[static_cast<std::size_t>(layer)];
  if (there == wanted_places_) return;
  there = wanted_places_;
  StagedBlock block = staging_.block(queue_, static_cast<std::size_t>(3 * bytes), at<std::byte>(region));
  for (std::size_t i = 0; i < 3; ++i)
    std::copy_n(there.data() + i * count, count, block.take<ProductWeights>(count).host);
  staging_.upload(block);
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
