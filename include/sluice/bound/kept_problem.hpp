// SPDX-License-Identifier: Apache-2.0
// KeptProblem: which requests any schedule could serve within their SLOs, as a mixed-integer program.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/cost/layer_work.hpp"
#include "sluice/workload/request.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// What the schedules of a bound may do, beyond knowing every arrival and length.
struct Freedom {
  bool pauses = true; ///< a request may sit out iterations between its first token and its last
  bool link = true;   ///< KV and weights may cross the link, or be rebuilt; otherwise KV stays on the device
};

/// The machine, as far as a bound reads it.
struct BoundMachine {
  StepFloor floor;
  std::int64_t layers = 1;
  std::int64_t batch = 1; ///< most requests in an iteration
  TokenBlocks memory{0};  ///< device memory for KV beside all weights
  Tokens block_tokens{16};
  double fetched_per_s = 0; ///< tokens whose KV of one layer the link can bring in a second, at most
  double hidden_share = 1;  ///< size of hidden states relative to K and V; from 1 on, keeping them gains nothing
};

/// `sum of coefficient * column <= most`.
struct BoundRow {
  std::vector<std::pair<std::size_t, double>> terms;
  double most = 0;
};

/// The relaxation of docs/bound.md, which has the proof. A column is a request and a part of the time in which its
/// first token can be in time; it is 1 if the request keeps its SLO and its first token comes in that part.
///
///  - One part per request at most.
///  - *Intervals*: in [s, t] fit the parts of kept requests' work that can lie nowhere else. A request's work is its
///    share of its iterations. It shares their fixed time by its part of the batch, or of the memory, by functions that
///    add up to at most 1 over any batch (dual feasible functions, for indivisible requests).
///  - *Memory*, without the link: requests that surely hold KV at one moment fit into the device.
///  - *Places*, without pauses: requests that have begun and surely not ended are at most one batch.
///
/// `rows` are those that need no solution to be found; `violated` finds more for a solution of the relaxation. Any
/// subset of them leaves the optimum a bound.
class KeptProblem {
 public:
  struct Column {
    std::size_t request = 0;
    double earliest_s = 0, latest_s = 0; ///< the first token's time
    double ends_s = 0;                   ///< the earliest end
  };

  KeptProblem(BoundMachine machine, std::span<const RequestSpec> requests, Freedom freedom)
      : machine_(std::move(machine)), freedom_(freedom) {
    SLUICE_ASSERT(machine_.batch > 0 && machine_.layers > 0 && !machine_.floor.lines.empty(), "a machine");
    set_link();
    make_families();
    for (const RequestSpec& request : requests) add(request);
    add_rows();
    choose_points();
  }

  [[nodiscard]] std::span<const Column> columns() const { return columns_; }
  [[nodiscard]] std::span<const BoundRow> rows() const { return rows_; }
  [[nodiscard]] std::int64_t counted() const { return counted_; } ///< requests that have an SLO: the denominator
  /// Requests that a schedule keeps in any case, as far as this relaxation knows: they have no deadline.
  [[nodiscard]] std::int64_t kept_freely() const { return kept_freely_; }

  /// The rows of intervals that `values`, one per column, violate: for each begin and each end the worst.
  [[nodiscard]] std::vector<BoundRow> violated(std::span<const double> values) const;

 private:
  static constexpr std::size_t parts = 8;   ///< of the time in which a first token is in time
  static constexpr double tolerance = 1e-6; ///< seconds that every deadline is later, for rounding

  /// One linear lower bound of an iteration's time by its members' shares. The share of a request that reads `c` tokens
  /// is fixed_s * f((c - 1) / room), with f(x) = x (`steps` = 0), or floor((steps + 1) x) / steps.
  struct Family {
    StepLine line;
    bool by_memory = false;
    int steps = 0;
  };
  /// A request with an SLO that it could keep alone.
  struct Work {
    std::size_t request = 0;
    double arrival_s = 0, first_due_s = 0, due_s = 0;
    double prompt = 0, prompt_s = 0; ///< its tokens, and the least time to compute them
    std::vector<double> before_s;    ///< least time of the decodes before each, and of all
    std::vector<double> shares[3];   ///< sums of f over the decodes before each, for steps 1, 2, 3

    [[nodiscard]] std::size_t decodes() const { return before_s.size() - 1; }
    [[nodiscard]] double starts(std::size_t step) const { return arrival_s + prompt_s + before_s[step]; }
    [[nodiscard]] double ends(std::size_t step) const { return due_s - (before_s.back() - before_s[step + 1]); }
    [[nodiscard]] double context(std::size_t step) const { return prompt + 1 + static_cast<double>(step); }
  };
  /// The decodes [first, last) and whether the prompt lie within an interval.
  struct Inside {
    std::size_t first = 0, last = 0;
    bool prompt = false;
  };
  struct Sums {
    double decodes = 0, context = 0, tokens = 0, pairs = 0, shares[3] = {0, 0, 0};
  };

  void set_link();
  void make_families();
  void add(const RequestSpec& request);
  void add_rows();
  void choose_points();
  [[nodiscard]] Family safe(Family family) const;
  [[nodiscard]] double room_of(int steps) const { return room_ * (freedom_.link && steps > 0 ? widened : 1.0); }
  [[nodiscard]] double least_decode(double context) const;
  [[nodiscard]] double coefficient(const Family& family, const Sums& sums) const;
  [[nodiscard]] static Sums sums_of(const Work& work, const Inside& inside);
  [[nodiscard]] Inside inside(std::size_t work, std::size_t begin, std::size_t end) const {
    const Inside found{first_in_[begin * works_.size() + work], last_in_[end * works_.size() + work],
                       begins_[begin] <= works_[work].arrival_s && works_[work].first_due_s <= ends_[end]};
    return {found.first, std::max(found.first, found.last), found.prompt};
  }

  static constexpr double widened = 1.25; ///< of the memory, where steps count and KV may be fetched

  BoundMachine machine_;
  Freedom freedom_;
  double least_layers_ = 1; ///< share of a token's layers whose KV must be on the device or be brought there
  double token_s_ = 0;      ///< seconds to bring one token's KV of all layers, by link and rebuilding together
  double memory_ = 0;       ///< tokens whose KV of all layers fits into the device
  double room_ = 0;         ///< tokens of KV that an iteration can read without bringing any
  std::vector<Family> families_;
  std::vector<Work> works_;
  std::vector<Column> columns_;
  std::vector<std::size_t> work_of_; ///< of each column
  std::vector<BoundRow> rows_;
  std::vector<double> begins_, ends_;
  std::vector<std::uint32_t> first_in_, last_in_; ///< by begin or end, and work
  std::int64_t counted_ = 0, kept_freely_ = 0;
};

inline void KeptProblem::set_link() {
  const double layers = static_cast<double>(machine_.layers);
  memory_ = static_cast<double>(machine_.memory.count() * machine_.block_tokens.count());
  room_ = memory_;
  if (!freedom_.link) return;
  // The first layer's KV can be projected from embeddings; any other is fetched, or its layer below is computed.
  least_layers_ = 1 - 1 / layers;
  // Hidden states on the device, projected in each iteration, leave the rest of their K and V's room to others.
  const StepFloor& floor = machine_.floor;
  SLUICE_ASSERT(floor.project_s > 0 || floor.pass_s <= 0, "a time to project K and V, or their rate would count as 0");
  const double passed_per_s = floor.pass_s > 0 ? layers / floor.pass_s : 0.0;
  const double projected_per_s = floor.project_s > 0 ? (1 - machine_.hidden_share) * layers / floor.project_s : 0.0;
  const double rebuilt_per_s = std::max(passed_per_s, projected_per_s);
  token_s_ = layers / (machine_.fetched_per_s + rebuilt_per_s);
  room_ = least_layers_ > 0 ? memory_ / least_layers_ : std::numeric_limits<double>::infinity();
}

/// Whether a step that is computed again as a chunk, its KV dropped before, takes at least the share that `line` and
/// `by_context` (per token) give to its decode; if not, the line is mixed with the one that has the dearest chunks.
inline KeptProblem::Family KeptProblem::safe(Family family) const {
  const StepLine& dear = *std::max_element(machine_.floor.lines.begin(), machine_.floor.lines.end(),
                                           [](const StepLine& a, const StepLine& b) { return a.token_s < b.token_s; });
  const double room = room_of(family.steps);
  const auto holds = [&](const StepLine& line) {
    // f(x) <= 2 x. Both sides are linear in the tokens, of which there are at least two.
    const double share = family.by_memory ? (family.steps > 0 ? 2.0 : 1.0) * line.fixed_s / room : 0.0;
    return line.token_s >= line.context_s + share && 2 * line.token_s >= line.decode_s + 2 * (line.context_s + share);
  };
  const StepLine whole = family.line;
  if (holds(whole)) return family;
  double fails = 0, works = 1;
  for (int i = 0; i < 40; ++i) {
    const double middle = 0.5 * (fails + works);
    (holds(between(whole, dear, middle)) ? works : fails) = middle;
  }
  family.line = between(whole, dear, works);
  return family;
}

inline void KeptProblem::make_families() {
  const double memory_s = token_s_ * memory_; // to bring a whole memory
  for (const StepLine& line : machine_.floor.lines) {
    families_.push_back(safe({line, false, 0}));
    if (!(room_ > 0) || !std::isfinite(room_)) continue;
    for (int steps = 0; steps <= 3; ++steps) {
      Family family = safe({line, true, steps});
      if (freedom_.link) {
        // Beyond the memory an iteration also lasts as long as the link: by this weight the shares stay below its time.
        const double k = steps;
        const double relative = steps == 0 ? 1.0 : std::max(1 / (k * (widened - 1)), (k + 1) / (k * widened));
        const double weight = family.line.fixed_s * relative / memory_s;
        family.line = between(family.line, {}, weight / (1 + weight));
      }
      families_.push_back(family);
    }
  }
}

/// The least time of an iteration that gives a request its next token, from `context` tokens.
inline double KeptProblem::least_decode(double context) const {
  double least = machine_.floor.decode(context);
  double again = 0; // its KV computed again instead
  for (const StepLine& line : machine_.floor.lines) again = std::max(again, line.fixed_s + line.token_s * context);
  if (const double over = least_layers_ * (context - 1) - memory_; over > 0) least = std::max(least, token_s_ * over);
  return std::min(least, again);
}

inline void KeptProblem::add(const RequestSpec& request) {
  const Slo slo = request.slo;
  const auto output = static_cast<double>(request.output.count());
  if (std::isinf(slo.ttft.count()) && std::isinf(slo.tbt.count())) return;
  ++counted_;
  const std::size_t number = static_cast<std::size_t>(counted_ - 1);
  const double first_due = request.arrival.count() + slo.ttft.count() + tolerance;
  const double due =
      request.output.count() > 1 ? first_due + (output - 1) * slo.tbt.count() * (1 + 1e-9) + tolerance : first_due;
  if (std::isinf(first_due)) { // its first token may come at any time, and so may its last
    ++kept_freely_;
    return;
  }
  Work work{number, request.arrival.count(), first_due, due, static_cast<double>(request.prompt.count()), 0, {0}, {}};
  work.prompt_s = machine_.floor.prompt(work.prompt);
  for (auto& shares : work.shares) shares.push_back(0);
  for (std::size_t step = 0; step + 1 < static_cast<std::size_t>(request.output.count()); ++step) {
    const double context = work.context(step);
    work.before_s.push_back(work.before_s.back() + least_decode(context));
    for (int steps = 1; steps <= 3; ++steps) {
      std::vector<double>& shares = work.shares[steps - 1];
      const double x = (context - 1) / room_of(steps);
      shares.push_back(shares.back() + (x > 0 ? std::floor((steps + 1) * x * (1 - 1e-12)) / steps : 0.0));
    }
  }
  const std::int64_t blocks =
      (request.prompt.count() + request.output.count() - 1 + machine_.block_tokens.count() - 1) /
      machine_.block_tokens.count();
  if (!freedom_.link && blocks > machine_.memory.count()) return;
  const double earliest = work.starts(0);
  const double latest = std::min(first_due, due - work.before_s.back());
  if (earliest > latest) return;
  const std::size_t count = freedom_.pauses && freedom_.link ? 1 : parts;
  for (std::size_t part = 0; part < count; ++part) {
    const auto at = [&](std::size_t i) {
      return earliest + (latest - earliest) * static_cast<double>(i) / static_cast<double>(count);
    };
    columns_.push_back({number, at(part), part + 1 == count ? latest : at(part + 1), at(part) + work.before_s.back()});
    work_of_.push_back(works_.size());
  }
  works_.push_back(std::move(work));
}

inline void KeptProblem::add_rows() {
  for (std::size_t first = 0; first < columns_.size();) {
    BoundRow row{{}, 1};
    std::size_t last = first;
    for (; last < columns_.size() && work_of_[last] == work_of_[first]; ++last) row.terms.emplace_back(last, 1.0);
    if (row.terms.size() > 1) rows_.push_back(std::move(row));
    first = last;
  }
  if (freedom_.pauses && freedom_.link) return;
  // Who surely has begun and not ended changes with the latest begins; between them requests only end.
  std::vector<double> moments;
  for (const Column& column : columns_) moments.push_back(column.latest_s);
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  std::vector<std::size_t> before, now;
  for (const double moment : moments) {
    now.clear();
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i].latest_s <= moment && moment < columns_[i].ends_s) now.push_back(i);
    if (std::includes(before.begin(), before.end(), now.begin(), now.end()) && freedom_.link) continue;
    before = now;
    BoundRow places{{}, static_cast<double>(machine_.batch)};
    BoundRow memory{{}, static_cast<double>(machine_.memory.count())};
    double blocks_of_all = 0;
    for (const std::size_t i : now) {
      const Work& work = works_[work_of_[i]];
      places.terms.emplace_back(i, 1.0);
      std::size_t surely = 0, beyond = work.decodes(); // decodes that must have ended: the first of a bisection
      while (surely < beyond) {
        const std::size_t middle = (surely + beyond) / 2;
        if (work.ends(middle) <= moment)
          surely = middle + 1;
        else
          beyond = middle;
      }
      const double blocks =
          std::ceil((work.prompt + static_cast<double>(surely)) / static_cast<double>(machine_.block_tokens.count()));
      memory.terms.emplace_back(i, blocks);
      blocks_of_all += blocks;
    }
    if (!freedom_.pauses && now.size() > static_cast<std::size_t>(machine_.batch)) rows_.push_back(std::move(places));
    if (!freedom_.link && blocks_of_all > memory.most) rows_.push_back(std::move(memory));
  }
}

inline void KeptProblem::choose_points() {
  for (const Work& work : works_) {
    begins_.push_back(work.arrival_s);
    begins_.push_back(work.first_due_s);
    ends_.push_back(work.due_s);
    ends_.push_back(work.first_due_s);
  }
  // Every pair costs a pass over the requests: of many points some are left out, which leaves the bound one.
  const auto most =
      static_cast<std::size_t>(std::sqrt(2e8 / static_cast<double>(std::max<std::size_t>(works_.size(), 1))));
  for (std::vector<double>* points : {&begins_, &ends_}) {
    std::sort(points->begin(), points->end());
    points->erase(std::unique(points->begin(), points->end()), points->end());
    if (points->size() <= most) continue;
    std::vector<double> kept;
    for (std::size_t i = 0; i < most; ++i) kept.push_back((*points)[i * (points->size() - 1) / (most - 1)]);
    *points = std::move(kept);
  }
  const auto first_where = [](std::size_t count, auto&& holds) { // of a condition that stays true
    std::size_t low = 0;
    while (low < count) {
      const std::size_t middle = (low + count) / 2;
      if (holds(middle))
        count = middle;
      else
        low = middle + 1;
    }
    return static_cast<std::uint32_t>(low);
  };
  for (const double begin : begins_)
    for (const Work& work : works_)
      first_in_.push_back(first_where(work.decodes(), [&](std::size_t step) { return work.starts(step) >= begin; }));
  for (const double end : ends_)
    for (const Work& work : works_)
      last_in_.push_back(first_where(work.decodes(), [&](std::size_t step) { return work.ends(step) > end; }));
}

inline KeptProblem::Sums KeptProblem::sums_of(const Work& work, const Inside& inside) {
  Sums sums;
  const double first = static_cast<double>(inside.first), last = static_cast<double>(inside.last);
  sums.decodes = last - first;
  sums.context = (last - first) * (work.prompt + 1) + 0.5 * (last * (last - 1) - first * (first - 1));
  for (std::size_t i = 0; i < 3; ++i) sums.shares[i] = work.shares[i][inside.last] - work.shares[i][inside.first];
  if (inside.prompt) {
    sums.tokens = work.prompt;
    sums.pairs = 0.5 * work.prompt * (work.prompt + 1);
  }
  return sums;
}

inline double KeptProblem::coefficient(const Family& family, const Sums& sums) const {
  const StepLine& line = family.line;
  const double share = !family.by_memory   ? sums.decodes / static_cast<double>(machine_.batch)
                       : family.steps == 0 ? (sums.context - sums.decodes) / room_
                                           : sums.shares[family.steps - 1];
  return line.fixed_s * share + line.decode_s * sums.decodes + line.context_s * sums.context +
         line.token_s * sums.tokens + line.pair_s * sums.pairs;
}

inline std::vector<BoundRow> KeptProblem::violated(std::span<const double> values) const {
  SLUICE_ASSERT(values.size() == columns_.size(), "a value for each column");
  std::vector<double> kept(works_.size(), 0);
  for (std::size_t i = 0; i < columns_.size(); ++i) kept[work_of_[i]] += values[i];
  struct Worst {
    double by = 1e-7; // of the interval's length
    std::size_t begin = 0, end = 0, family = 0;
  };
  std::vector<Worst> of_begin(begins_.size()), of_end(ends_.size());
  for (std::size_t begin = 0; begin < begins_.size(); ++begin)
    for (std::size_t end = 0; end < ends_.size(); ++end) {
      const double length = ends_[end] - begins_[begin];
      if (length <= 0) continue;
      Sums all;
      for (std::size_t i = 0; i < works_.size(); ++i) {
        const Inside part = inside(i, begin, end);
        if (kept[i] <= 0 || (part.first == part.last && !part.prompt)) continue;
        const Sums one = sums_of(works_[i], part);
        all.decodes += kept[i] * one.decodes;
        all.context += kept[i] * one.context;
        all.tokens += kept[i] * one.tokens;
        all.pairs += kept[i] * one.pairs;
        for (std::size_t k = 0; k < 3; ++k) all.shares[k] += kept[i] * one.shares[k];
      }
      for (std::size_t family = 0; family < families_.size(); ++family) {
        const double by = coefficient(families_[family], all) / length - 1;
        for (Worst* worst : {&of_begin[begin], &of_end[end]})
          if (by > worst->by) *worst = {by, begin, end, family};
      }
    }
  std::vector<BoundRow> rows;
  const auto add = [&](const Worst& worst) {
    const double length = ends_[worst.end] - begins_[worst.begin];
    BoundRow row{{}, 1 + 1e-9};
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const Inside part = inside(work_of_[i], worst.begin, worst.end);
      const double share = coefficient(families_[worst.family], sums_of(works_[work_of_[i]], part)) / length;
      if (share > 0) row.terms.emplace_back(i, share);
    }
    rows.push_back(std::move(row));
  };
  for (const Worst& worst : of_begin)
    if (worst.by > 1e-7) add(worst);
  for (const Worst& worst : of_end)
    if (worst.by > 1e-7 && (of_begin[worst.begin].end != worst.end || of_begin[worst.begin].family != worst.family))
      add(worst);
  return rows;
}

} // namespace sluice
