// SPDX-License-Identifier: Apache-2.0
// Products: measured matrix products, and those that a layer computes.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/shape.hpp"

#include "validate/import/peak.hpp"
#include "validate/import/perf_table.hpp"
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace imported {

/// Measured microseconds over a size. Every measured point is kept: at a tile's edge both m and m + 1 are measured, and
/// a resampled line is off by 5 % between them.
using Microseconds = std::map<std::int64_t, double>;

/// Between two points and beyond the last linear; the first below it.
inline double at(const Microseconds& line, std::int64_t size) {
  auto high = line.lower_bound(size);
  if (high == line.begin() || line.size() == 1) return line.begin()->second;
  if (high == line.end()) --high;
  const auto low = std::prev(high);
  const double share = static_cast<double>(size - low->first) / static_cast<double>(high->first - low->first);
  return low->second + (high->second - low->second) * share;
}

/// Several measurements of the same size count with their mean.
class Means {
 public:
  void add(std::int64_t size, double microseconds) {
    auto& [sum, count] = sums_[size];
    sum += microseconds;
    ++count;
  }
  [[nodiscard]] Microseconds line() const {
    Microseconds all;
    for (const auto& [size, mean] : sums_) all[size] = mean.first / mean.second;
    return all;
  }

 private:
  std::map<std::int64_t, std::pair<double, int>> sums_;
};

/// The rows of a line in dense.csv or per_sequence.csv.
inline void add_line(std::string& text, std::string_view kernel, const Microseconds& line) {
  for (const auto& [size, time] : line) text += fmt::format("{},{},{:.4f}\n", kernel, size, time);
}

/// Products of an m x k with a k x n matrix by n and k, each a line over m.
class Products {
 public:
  static sluice::Expected<Products> read(PerfTable& table, Peak& peak) {
    using namespace sluice;
    std::map<std::pair<std::int64_t, std::int64_t>, Means> all;
    for (;;) {
      const Expected<bool> row = table.next();
      if (!row) return row.error();
      if (!*row) break;
      const std::int64_t m = table.number(0), n = table.number(1), k = table.number(2);
      if (m < 1 || n < 1 || k < 1) return table.wrong("a size is 0", "1 or more");
      const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
      if (peak.holds(flops, table.microseconds())) all[{n, k}].add(m, table.microseconds());
    }
    if (table.rows() == 0) return table.lacks("no product of bfloat16 is measured", "rows with that gemm_dtype");
    if (Status status = peak.status(table.source()); !status) return status.error();
    Products products;
    products.where_ = table.lacks("", "").where;
    for (const auto& [shape, means] : all) products.lines_[shape] = means.line();
    return products;
  }

  /// Times over m. A shape that is not measured lies on the line through its two neighbours in n or in k. Beyond the
  /// measured ones that line is extrapolated, and `extrapolated` gets a word about it.
  [[nodiscard]] sluice::Expected<Microseconds> line(std::int64_t n, std::int64_t k, std::string& extrapolated) const {
    const auto found = lines_.find({n, k});
    if (found != lines_.end()) return found->second;
    Microseconds columns = between(
        n, 'n', [&](const auto& shape) { return shape.second == k ? shape.first : 0; }, extrapolated);
    if (!columns.empty()) return columns;
    Microseconds rows = between(
        k, 'k', [&](const auto& shape) { return shape.first == n ? shape.second : 0; }, extrapolated);
    if (!rows.empty()) return rows;
    return sluice::Error{sluice::ErrorCode::bad_input, where_,
                         fmt::format("neither {} columns nor {} rows of a product are measured at two sizes", n, k),
                         "a model whose products lie between measured ones"};
  }

 private:
  /// `of`: a shape's size on the axis; 0: it is not on it. Empty with fewer than two shapes on it.
  template <class Of>
  [[nodiscard]] Microseconds between(std::int64_t size, char name, Of of, std::string& extrapolated) const {
    std::map<std::int64_t, const Microseconds*> axis;
    for (const auto& [shape, line] : lines_)
      if (of(shape) > 0) axis[of(shape)] = &line;
    Microseconds mixed;
    if (axis.size() < 2) return mixed;
    const std::int64_t least = axis.begin()->first, most = axis.rbegin()->first;
    if (size < least || size > most)
      extrapolated +=
          fmt::format("{}{} = {} beyond {}", extrapolated.empty() ? "" : ", ", name, size, size < least ? least : most);
    auto high = axis.lower_bound(size);
    if (high == axis.begin()) ++high;
    if (high == axis.end()) --high;
    const auto low = std::prev(high);
    const double share = static_cast<double>(size - low->first) / static_cast<double>(high->first - low->first);
    for (const auto& [m, time] : *low->second)
      if (const auto other = high->second->find(m); other != high->second->end())
        if (const double value = time + (other->second - time) * share; value > 0) mixed[m] = value;
    return mixed;
  }

  std::map<std::pair<std::int64_t, std::int64_t>, Microseconds> lines_;
  std::string where_;
};

/// A kernel that is a product, and its n and k.
struct ProductKernel {
  std::string_view name;
  std::int64_t n = 0, k = 0;
};

inline std::array<ProductKernel, 4> product_kernels(const sluice::ModelShape& shard) {
  const std::int64_t head = shard.head_dim;
  return {{{"down_proj", shard.hidden, shard.mlp},
           {"gate_up_proj", 2 * std::int64_t{shard.mlp}, shard.hidden},
           {"o_proj", shard.hidden, shard.heads * head},
           {"qkv_proj", (shard.heads + 2 * std::int64_t{shard.kv_heads}) * head, shard.hidden}}};
}

} // namespace imported
