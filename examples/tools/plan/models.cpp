// SPDX-License-Identifier: Apache-2.0
#include "plan/models.hpp"

#include "sluice/model/nlohmann/hf_description.hpp"
#include "sluice/report/number_text.hpp"

#include "shared/kv_dtype.hpp"
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

namespace planned {

using namespace sluice;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::array<std::int64_t, 5> contexts{1024, 8192, 32768, 131072, 1048576};

/// The folders with a config.json, by name.
Expected<std::vector<std::filesystem::path>> model_folders(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code wrong;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(folder, wrong), end; !wrong && at != end; at.increment(wrong)) {
    std::error_code ignored;
    if (fs::exists(at->path() / "config.json", ignored)) found.push_back(at->path());
  }
  if (wrong)
    return Error{ErrorCode::not_found, "--models", "'" + folder + "' cannot be read", "a folder of model folders"};
  if (found.empty())
    return Error{ErrorCode::not_found, "--models", "no folder in '" + folder + "' has a config.json",
                 "a folder of model folders"};
  std::sort(found.begin(), found.end());
  return found;
}

Json line_of(const std::string& name, const Expected<ModelDescription>& model) {
  if (!model) return Json{{"model", name}, {"refused", model.error().line()}};
  Json kv = Json::object();
  for (const std::int64_t tokens : contexts) kv[std::to_string(tokens)] = model->kv.bytes(Tokens{tokens}).count();
  return Json{{"model", name},
              {"parameters", model->parameters()},
              {"active_parameters", model->active_parameters()},
              {"weight_bytes", model->weight_bytes().count()},
              {"kv_bytes", std::move(kv)}};
}

std::string billions(std::int64_t parameters) { return short_text(static_cast<double>(parameters) / 1e9); }

} // namespace

Status print_models(const std::string& folder, bool json, const std::string& kv_dtype) {
  const Expected<int> kv_bytes = read_kv_dtype(kv_dtype);
  if (!kv_bytes) return kv_bytes.error();
  const Expected<std::vector<std::filesystem::path>> folders = model_folders(folder);
  if (!folders) return folders.error();
  TextTable table({{"", "model"},
                   {"parameters, 1e9", "all"},
                   {"parameters, 1e9", "active"},
                   {"weights", "GB"},
                   {"KV of a request, MB", "fixed"},
                   {"KV of a request, MB", "per 1k tokens"},
                   {"KV of a request, MB", "at 8k"},
                   {"KV of a request, MB", "at 128k"}});
  std::vector<std::string> refused;
  for (const std::filesystem::path& at : *folders) {
    const std::string name = at.filename().string();
    const Expected<ModelDescription> model = read_hf_description(at.string(), *kv_bytes);
    if (json) {
      std::printf("%s\n", line_of(name, model).dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    } else if (!model) {
      refused.push_back(name + ": " + model.error().line());
    } else {
      const auto megabytes = [](double bytes) { return short_text(bytes / 1e6); };
      const auto kv_at = [&](std::int64_t tokens) {
        return megabytes(static_cast<double>(model->kv.bytes(Tokens{tokens}).count()));
      };
      table.row({name, billions(model->parameters()), billions(model->active_parameters()),
                 short_text(static_cast<double>(model->weight_bytes().count()) / 1e9),
                 megabytes(static_cast<double>(model->kv.fixed_bytes().count())),
                 megabytes(model->kv.growth_bytes_per_token() * 1024), kv_at(8192), kv_at(131072)});
    }
  }
  if (json) return {};
  std::printf("%s", table.text().c_str());
  for (const std::string& line : refused) std::printf("refused: %s\n", line.c_str());
  return {};
}

void print_model_types() {
  std::printf("| `model_type` | models | a layer keeps of a request |\n|---|---|---|\n");
  for (const HfModelTypes& row : hf_model_types())
    std::printf("| `%s` | %s | %s |\n", std::string{row.types}.c_str(), std::string{row.models}.c_str(),
                std::string{row.kv}.c_str());
}

} // namespace planned
