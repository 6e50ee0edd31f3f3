// SPDX-License-Identifier: Apache-2.0
// LlamaPass: a model's loss on a window of tokens, and its gradient by every parameter, written by hand.
#pragma once

#include "eigen.hpp"
#include "llama.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace training {

/// The forward and the backward pass on one window at a time. A window has a few hundred rows, enough for products near
/// the machine's peak speed, and its activations stay in the cache. The caller sums windows into batches.
///
/// Rejected: automatic differentiation. A Llama has six kinds of operation, each with a derivative of a few lines, and
/// finite differences (tests/train) identify a wrong one.
///
/// `Scalar` is float in training. With double, finite differences are exact enough to check every significant digit.
template <class Scalar>
class LlamaPass {
 public:
  using Grid = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Row = Eigen::Matrix<Scalar, 1, Eigen::Dynamic>;

  explicit LlamaPass(const LlamaShape& shape)
      : shape_(shape), places_(shape), layers_(static_cast<std::size_t>(shape.layers)) {
    const Eigen::Index half = shape.head_dim / 2;
    cosine_.resize(shape.context, half);
    sine_.resize(shape.context, half);
    for (Eigen::Index position = 0; position < shape.context; ++position) {
      for (Eigen::Index pair = 0; pair < half; ++pair) {
        const double turn =
            static_cast<double>(position) *
            std::pow(shape.rope_theta, -2.0 * static_cast<double>(pair) / static_cast<double>(shape.head_dim));
        cosine_(position, pair) = static_cast<Scalar>(std::cos(turn));
        sine_(position, pair) = static_cast<Scalar>(std::sin(turn));
      }
    }
  }

  [[nodiscard]] const ParameterPlaces& places() const { return places_; }

  /// The logits of each position of `tokens`, one row each; valid until the next call.
  const Grid& logits(std::span<const Scalar> weights, std::span<const std::uint16_t> tokens) {
    forward(weights, tokens);
    return logits_;
  }

  /// The sum of -ln p(token | previous tokens) over all tokens of the window except the first.
  double loss(std::span<const Scalar> weights, std::span<const std::uint16_t> window) {
    forward(weights, window.first(window.size() - 1));
    return cross_entropy(window.subspan(1), 0);
  }

  /// The same; also adds `scale` times its gradient to `gradient`.
  double loss_and_gradient(std::span<const Scalar> weights, std::span<const std::uint16_t> window, Scalar scale,
                           std::span<Scalar> gradient) {
    const std::span<const std::uint16_t> tokens = window.first(window.size() - 1);
    forward(weights, tokens);
    const double sum = cross_entropy(window.subspan(1), scale);
    backward(weights, tokens, gradient);
    return sum;
  }

 private:
  using ConstMap = Eigen::Map<const Grid>;
  using Map = Eigen::Map<Grid>;

  /// The values of a layer's forward pass that its backward pass needs.
  struct Layer {
    Grid input, normed, projected; ///< the residual; its norm; query, key and value next to each other
    Grid attention;                ///< probabilities: head by head, one row per query
    Grid mixed;                    ///< values weighted by attention
    Grid middle, middle_normed;    ///< the residual after attention; its norm
    Grid gate_up, gated;
    Row scale, middle_scale; ///< of the norms, one per position
  };

  [[nodiscard]] ConstMap matrix(std::span<const Scalar> weights, std::size_t at, Eigen::Index rows,
                                Eigen::Index columns) const {
    return ConstMap(weights.data() + at, rows, columns);
  }
  [[nodiscard]] Map matrix(std::span<Scalar> gradient, std::size_t at, Eigen::Index rows, Eigen::Index columns) const {
    return Map(gradient.data() + at, rows, columns);
  }

  void norm(const Grid& x, const ConstMap& weight, Grid& normed, Row& scale) const {
    normed.resize(x.rows(), x.cols());
    scale.resize(x.rows());
    for (Eigen::Index i = 0; i < x.rows(); ++i) {
      const Scalar mean = x.row(i).squaredNorm() / static_cast<Scalar>(x.cols());
      scale(i) = 1 / std::sqrt(mean + static_cast<Scalar>(shape_.norm_epsilon));
      normed.row(i) = x.row(i).cwiseProduct(weight.row(0)) * scale(i);
    }
  }
  /// Adds to the gradients of the residual and of the norm's weight.
  static void norm_back(const Grid& x, const ConstMap& weight, const Row& scale, const Grid& d_normed, Grid& d_x,
                        Map d_weight) {
    const auto columns = static_cast<Scalar>(x.cols());
    for (Eigen::Index i = 0; i < x.rows(); ++i) {
      d_weight.row(0) += d_normed.row(i).cwiseProduct(x.row(i)) * scale(i);
      const Scalar along = d_normed.row(i).cwiseProduct(weight.row(0)).dot(x.row(i));
      d_x.row(i) += d_normed.row(i).cwiseProduct(weight.row(0)) * scale(i) -
                    x.row(i) * (along * scale(i) * scale(i) * scale(i) / columns);
    }
  }

  /// Rotates the halves of every head's query and key against each other. `sign` -1 reverses it, as the gradient needs:
  /// a rotation's transpose is its inverse.
  void rotate(Grid& projected, Scalar sign) {
    const Eigen::Index half = shape_.head_dim / 2;
    for (Eigen::Index i = 0; i < projected.rows(); ++i) {
      const auto cosine = cosine_.row(i).array();
      const auto sine = sine_.row(i).array() * sign;
      for (Eigen::Index head = 0; head < shape_.heads + shape_.kv_heads; ++head) {
        auto first = projected.row(i).segment(head * shape_.head_dim, half).array();
        auto second = projected.row(i).segment(head * shape_.head_dim + half, half).array();
        turned_ = first * cosine - second * sine;
        second = second * cosine + first * sine;
        first = turned_;
      }
    }
  }

  /// Queries are processed in blocks of rows, so that a block's scores end at its last row: with all rows at once, half
  /// of the products would be masked.
  static constexpr Eigen::Index block_rows = 64;

  template <class Visit>
  void each_block(Eigen::Index rows, Visit visit) const {
    for (Eigen::Index head = 0; head < shape_.heads; ++head)
      for (Eigen::Index begin = 0; begin < rows; begin += block_rows)
        visit(head, begin, std::min(block_rows, rows - begin));
  }
  [[nodiscard]] Eigen::Index key_column(Eigen::Index head) const {
    return shape_.queries() + head / (shape_.heads / shape_.kv_heads) * shape_.head_dim;
  }
  [[nodiscard]] Scalar score_scale() const { return 1 / std::sqrt(static_cast<Scalar>(shape_.head_dim)); }

  void attend(Layer& layer) const {
    const Eigen::Index rows = layer.projected.rows(), size = shape_.head_dim;
    layer.attention.resize(rows * shape_.heads, rows);
    layer.mixed.resize(rows, shape_.queries());
    each_block(rows, [&](Eigen::Index head, Eigen::Index begin, Eigen::Index count) {
      const Eigen::Index end = begin + count, key = key_column(head), value = key + shape_.keys();
      auto scores = layer.attention.block(head * rows + begin, 0, count, end);
      scores.noalias() =
          layer.projected.block(begin, head * size, count, size) * layer.projected.block(0, key, end, size).transpose();
      for (Eigen::Index i = 0; i < count; ++i) {
        auto seen = scores.row(i).head(begin + i + 1).array();
        const Scalar most = seen.maxCoeff();
        seen = ((seen - most) * score_scale()).exp();
        seen /= seen.sum();
        scores.row(i).tail(count - i - 1).setZero();
      }
      layer.mixed.block(begin, head * size, count, size).noalias() =
          scores * layer.projected.block(0, value, end, size);
    });
  }
  /// Computes the gradient of query, key and value, still rotated, from the gradient of `mixed`.
  void attend_back(const Layer& layer, const Grid& d_mixed, Grid& d_projected) {
    const Eigen::Index rows = layer.projected.rows(), size = shape_.head_dim;
    d_projected.setZero(rows, layer.projected.cols());
    each_block(rows, [&](Eigen::Index head, Eigen::Index begin, Eigen::Index count) {
      const Eigen::Index end = begin + count, key = key_column(head), value = key + shape_.keys();
      const auto attention = layer.attention.block(head * rows + begin, 0, count, end);
      const auto d_out = d_mixed.block(begin, head * size, count, size);
      d_projected.block(0, value, end, size).noalias() += attention.transpose() * d_out;
      d_scores_.resize(count, end);
      d_scores_.noalias() = d_out * layer.projected.block(0, value, end, size).transpose();
      for (Eigen::Index i = 0; i < count; ++i) {
        const Scalar mean = d_scores_.row(i).dot(attention.row(i));
        d_scores_.row(i) = ((d_scores_.row(i).array() - mean) * attention.row(i).array() * score_scale()).matrix();
      }
      d_projected.block(begin, head * size, count, size).noalias() +=
          d_scores_ * layer.projected.block(0, key, end, size);
      d_projected.block(0, key, end, size).noalias() +=
          d_scores_.transpose() * layer.projected.block(begin, head * size, count, size);
    });
  }

  void forward(std::span<const Scalar> weights, std::span<const std::uint16_t> tokens) {
    const auto rows = static_cast<Eigen::Index>(tokens.size());
    const Eigen::Index hidden = shape_.hidden, mlp = shape_.mlp;
    const Eigen::Index projections = shape_.queries() + 2 * shape_.keys();
    const ConstMap embedding = matrix(weights, places_.embedding, shape_.vocabulary, hidden);
    residual_.resize(rows, hidden);
    for (Eigen::Index i = 0; i < rows; ++i) residual_.row(i) = embedding.row(tokens[static_cast<std::size_t>(i)]);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      Layer& layer = layers_[l];
      const LayerPlaces& at = places_.layers[l];
      layer.input = residual_;
      norm(layer.input, matrix(weights, at.attention_norm, 1, hidden), layer.normed, layer.scale);
      layer.projected.noalias() = layer.normed * matrix(weights, at.query_key_value, projections, hidden).transpose();
      rotate(layer.projected, 1);
      attend(layer);
      layer.middle = layer.input;
      layer.middle.noalias() += layer.mixed * matrix(weights, at.output, hidden, shape_.queries()).transpose();
      norm(layer.middle, matrix(weights, at.mlp_norm, 1, hidden), layer.middle_normed, layer.middle_scale);
      layer.gate_up.noalias() = layer.middle_normed * matrix(weights, at.gate_up, 2 * mlp, hidden).transpose();
      const auto gate = layer.gate_up.leftCols(mlp).array();
      layer.gated = (gate / (1 + (-gate).exp()) * layer.gate_up.rightCols(mlp).array()).matrix();
      residual_ = layer.middle;
      residual_.noalias() += layer.gated * matrix(weights, at.down, hidden, mlp).transpose();
    }
    norm(residual_, matrix(weights, places_.final_norm, 1, hidden), normed_, scale_);
    logits_.noalias() = normed_ * embedding.transpose();
  }

  /// The summed loss; `logits_` becomes `scale` times the loss's gradient by the logits, unless `scale` is 0.
  double cross_entropy(std::span<const std::uint16_t> next, Scalar scale) {
    double sum = 0;
    for (Eigen::Index i = 0; i < logits_.rows(); ++i) {
      const Eigen::Index right = next[static_cast<std::size_t>(i)];
      auto row = logits_.row(i).array();
      const Scalar most = row.maxCoeff(), own = row(right);
      row = (row - most).exp();
      const Scalar total = row.sum();
      sum += static_cast<double>(most + std::log(total) - own);
      if (scale == 0) continue;
      row *= scale / total;
      row(right) -= scale;
    }
    return sum;
  }

  /// Computes the gradient by every parameter from the gradient by the logits, in `logits_`.
  void backward(std::span<const Scalar> weights, std::span<const std::uint16_t> tokens, std::span<Scalar> gradient) {
    const Eigen::Index rows = logits_.rows(), hidden = shape_.hidden, mlp = shape_.mlp;
    const Eigen::Index projections = shape_.queries() + 2 * shape_.keys();
    Map d_embedding = matrix(gradient, places_.embedding, shape_.vocabulary, hidden);
    d_normed_.noalias() = logits_ * matrix(weights, places_.embedding, shape_.vocabulary, hidden);
    d_embedding.noalias() += logits_.transpose() * normed_;
    d_residual_.setZero(rows, hidden);
    norm_back(residual_, matrix(weights, places_.final_norm, 1, hidden), scale_, d_normed_, d_residual_,
              matrix(gradient, places_.final_norm, 1, hidden));
    for (std::size_t l = layers_.size(); l-- > 0;) {
      const Layer& layer = layers_[l];
      const LayerPlaces& at = places_.layers[l];
      d_gated_.noalias() = d_residual_ * matrix(weights, at.down, hidden, mlp);
      matrix(gradient, at.down, hidden, mlp).noalias() += d_residual_.transpose() * layer.gated;
      const auto gate = layer.gate_up.leftCols(mlp).array();
      sigmoid_ = (1 / (1 + (-gate).exp())).matrix();
      d_gate_up_.resize(rows, 2 * mlp);
      d_gate_up_.leftCols(mlp) = (d_gated_.array() * layer.gate_up.rightCols(mlp).array() * sigmoid_.array() *
                                  (1 + gate * (1 - sigmoid_.array())))
                                     .matrix();
      d_gate_up_.rightCols(mlp) = (d_gated_.array() * gate * sigmoid_.array()).matrix();
      matrix(gradient, at.gate_up, 2 * mlp, hidden).noalias() += d_gate_up_.transpose() * layer.middle_normed;
      d_normed_.noalias() = d_gate_up_ * matrix(weights, at.gate_up, 2 * mlp, hidden);
      norm_back(layer.middle, matrix(weights, at.mlp_norm, 1, hidden), layer.middle_scale, d_normed_, d_residual_,
                matrix(gradient, at.mlp_norm, 1, hidden));

      d_mixed_.noalias() = d_residual_ * matrix(weights, at.output, hidden, shape_.queries());
      matrix(gradient, at.output, hidden, shape_.queries()).noalias() += d_residual_.transpose() * layer.mixed;
      attend_back(layer, d_mixed_, d_projected_);
      rotate(d_projected_, -1);
      matrix(gradient, at.query_key_value, projections, hidden).noalias() += d_projected_.transpose() * layer.normed;
      d_normed_.noalias() = d_projected_ * matrix(weights, at.query_key_value, projections, hidden);
      norm_back(layer.input, matrix(weights, at.attention_norm, 1, hidden), layer.scale, d_normed_, d_residual_,
                matrix(gradient, at.attention_norm, 1, hidden));
    }
    for (Eigen::Index i = 0; i < rows; ++i) d_embedding.row(tokens[static_cast<std::size_t>(i)]) += d_residual_.row(i);
  }

  LlamaShape shape_;
  ParameterPlaces places_;
  std::vector<Layer> layers_;
  Grid cosine_, sine_;
  Grid residual_, normed_, logits_;
  Row scale_;
  Eigen::Array<Scalar, 1, Eigen::Dynamic> turned_;
  Grid d_residual_, d_normed_, d_gated_, d_gate_up_, sigmoid_, d_mixed_, d_projected_, d_scores_;
};

} // namespace training
