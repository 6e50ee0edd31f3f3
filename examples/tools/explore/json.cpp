// SPDX-License-Identifier: Apache-2.0
// explore.json: an exploration for programs. Equal runs give equal bytes.
#include "sluice/report/json.hpp"

#include "sluice/report/observer/json_writer.hpp"

#include "explore/exploration.hpp"
#include "shared/version.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace explored {

using namespace sluice;

namespace {

void write_space(JsonWriter& json, const Space& space) {
  std::size_t works = 0;
  for (const Combination& combination : space.combinations)
    if (combination.works) ++works;
  json.begin_object().field("name", space.product).field("combinations", space.combinations.size());
  json.field("engines", space.engines.size()).field("repeats", works - space.engines.size());
  json.field("conflicts", space.combinations.size() - works).key("roles").begin_array();
  for (const RoleChoices& role : space.roles) {
    json.line(4).begin_object().field("role", role.role).key("models").begin_array();
    for (const std::string& model : role.models) json.value(model);
    json.end_array().end_object();
  }
  json.end_array();
  json.line(3)
      .key("originals")
      .begin_array(); // by number: the combination whose figures count; null if the parts conflict
  for (const Combination& combination : space.combinations)
    if (combination.works)
      json.value(combination.original);
    else
      json.null();
  json.end_array().end_object();
}

void write_row(JsonWriter& json, const Exploration& found, const Row& row) {
  json.begin_object().field("name", row.name).field("engine", row.engine).field("published", row.published());
  json.field("own", row.own);
  json.field("control", row.control).field("oracle", row.oracle).key("rank");
  if (row.control)
    json.null();
  else
    json.value(row.rank);
  json.key("same_as");
  if (row.same_as)
    json.value(found.rows[*row.same_as].name);
  else
    json.null();
  json.field("pareto", row.pareto).field("livelock", row.livelock);
  if (row.short_horizon) json.field("short_horizon", true);
  if (!row.listed) {
    json.field("number", row.number).key("models").begin_object();
    for (std::size_t r = 0; r < found.space.roles.size(); ++r)
      json.field(found.space.roles[r].role, found.space.roles[r].models[found.space.model_of(row.number, r)]);
    json.end_object();
  }
  const auto wanted = [](std::string_view name) { return name.find("_wall_") == std::string_view::npos; };
  if (row.per_seed.empty())
    for_each_metric(row.metrics, [&](std::string_view name, auto number) {
      if (wanted(name) && in_json(name, static_cast<double>(number))) json.field(name, number);
    });
  else
    detail::write_seeds(json, row.per_seed, found.workload.windows, wanted);
  if (!found.reference.empty()) {
    const Interval& difference = row.against.difference;
    json.key("against").begin_object().field("name", found.reference).field("difference", difference.mean);
    json.key("interval").begin_array().value(difference.least).value(difference.most).end_array();
    json.field("tie", row.against.tie()).field("more", row.against.wins).field("less", row.against.losses);
    json.field("pairs", row.against.pairs()).end_object();
  }
  json.key("refusals").begin_object();
  for (const auto& [reason, count] : row.refusals) json.field(reason, count);
  json.end_object().end_object();
}

void write_marginals(JsonWriter& json, const Exploration& found) {
  json.begin_array();
  for (const RoleMarginals& role : found.marginals) {
    json.line(4).begin_object().field("role", found.space.roles[role.role].role).field("spread", role.spread);
    json.key("models").begin_array();
    for (std::size_t m = 0; m < role.models.size(); ++m) {
      const Marginal& marginal = role.models[m];
      json.line(6).begin_object().field("model", found.space.roles[role.role].models[m]);
      json.field("combinations", marginal.combinations).field("best", marginal.best).field("mean", marginal.mean);
      json.field("pairs", marginal.pairs).field("gain", marginal.gain).field("better", marginal.better);
      json.field("worse", marginal.worse);
      if (found.of_seeds()) {
        const Interval& gain = marginal.gain_of_seeds;
        json.key("gain_interval").begin_array().value(gain.least).value(gain.most).end_array();
      }
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

} // namespace

std::string exploration_json(const Exploration& found) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().line(2);
  detail::write_made_by(json, made_by());
  json.line(2).key("workload");
  detail::write_workload(json, found.workload);
  json.line(2).field("slo_scale", found.slo_scale).field("slo_tbt_s", found.slo_tbt_s).field("deposit", found.deposit);
  json.line(2).key("product");
  write_space(json, found.space);
  json.line(2).key("rows").begin_array();
  for (const Row& row : found.rows) {
    json.line(4);
    write_row(json, found, row);
  }
  json.line(2).end_array().line(2).key("marginals");
  write_marginals(json, found);
  json.line(2).key("beats_published").begin_array();
  for (const Row* row : found.beats_published()) json.value(row->engine);
  json.end_array().line().end_object();
  text += '\n';
  return text;
}

} // namespace explored
