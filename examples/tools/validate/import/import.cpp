// SPDX-License-Identifier: Apache-2.0
#include "validate/import/import.hpp"

#include "shared/flags.hpp"
#include "validate/import/aiconfigurator.hpp"
#include "validate/import/llmservingsim.hpp"
#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace imported {

using namespace sluice;

namespace {

int fail(const Error& error) {
  fmt::print(stderr, "sluice-validate: {}\n", error.line());
  return 2;
}

/// The first of the options that was not given.
Status all_given(std::initializer_list<const CLI::Option*> needed) {
  for (const CLI::Option* option : needed)
    if (option->count() == 0)
      return Error{ErrorCode::bad_input, option->get_name(), "is missing", "the flags that --help lists"};
  return {};
}

int finish(const Expected<BundleFiles>& bundle, const std::string& out) {
  if (!bundle) return fail(bundle.error());
  if (Status status = bundle->write(out); !status) return fail(status.error());
  for (const std::string& line : bundle->meta) fmt::print("{}\n", line);
  return 0;
}

int from_aiconfigurator(int argc, char** argv) {
  AiconfiguratorOptions options;
  std::string out, kernels;
  Flags flags{"sluice-validate", "Writes a bundle of kernel times from the tables of ai-dynamo/aiconfigurator."};
  CLI::App& app = flags.app();
  const CLI::Option* const tables = app.add_option(
      "--tables", options.tables,
      "folder of gemm_perf.csv, context_attention_perf.csv, generation_attention_perf.csv and, for several devices, "
      "custom_allreduce_perf.csv, as parquet_to_csv.mjs writes them");
  const CLI::Option* const system = app.add_option(
      "--system", options.system, "the GPU's file among aiconfigurator's systems, such as h100_sxm.yaml");
  const CLI::Option* const config = app.add_option("--config", options.config, "the model's config.json");
  const CLI::Option* const written = flags.folder("--out", out, "the bundle's folder");
  flags.whole("--devices", options.devices, 1, 64, "tensor-parallel devices that share the model (default: 1)");
  const CLI::Option* const base =
      app.add_option("--base", options.base, "instead: copy this bundle, and replace --kernels alone");
  const CLI::Option* const replaced =
      app.add_option("--kernels", kernels, "with --base: products, comma separated: qkv_proj,o_proj");
  if (const std::optional<int> status = flags.parse(argc, argv)) return *status;
  if (Status status = all_given({tables, system, config, written}); !status) return fail(status.error());
  if (base->count() != replaced->count())
    return fail({ErrorCode::bad_input, base->count() > 0 ? "--base" : "--kernels",
                 base->count() > 0 ? "there are no --kernels" : "there is no --base", "both of them"});
  for (std::size_t begin = 0; replaced->count() > 0 && begin <= kernels.size();) {
    const std::size_t end = std::min(kernels.find(',', begin), kernels.size());
    options.kernels.push_back(kernels.substr(begin, end - begin));
    begin = end + 1;
  }
  return finish(import_aiconfigurator(options), out);
}

int from_llmservingsim(int argc, char** argv) {
  LlmServingSimOptions options;
  std::string out;
  Flags flags{"sluice-validate", "Checks a bundle of LLMServingSim 2.0's profiler and writes it without its paths."};
  CLI::App& app = flags.app();
  const CLI::Option* const bundle =
      app.add_option("--bundle", options.bundle, "folder with meta.yaml and tp1, tp2, ... (profiler/perf)");
  const CLI::Option* const config = app.add_option("--config", options.config, "the model's config.json");
  const CLI::Option* const device =
      app.add_option("--device", options.device, "the GPU by name, or a JSON file: its peak bounds the products");
  const CLI::Option* const written = flags.folder("--out", out, "the bundle's folder");
  if (const std::optional<int> status = flags.parse(argc, argv)) return *status;
  if (Status status = all_given({bundle, config, device, written}); !status) return fail(status.error());
  return finish(import_llmservingsim(options), out);
}

} // namespace

int import_bundle(int argc, char** argv) {
  const std::string_view from = argc > 1 ? argv[1] : "";
  if (from == "aiconfigurator") return from_aiconfigurator(argc - 1, argv + 1);
  if (from == "llmservingsim") return from_llmservingsim(argc - 1, argv + 1);
  return fail({ErrorCode::bad_input, "import", from.empty() ? "no source is named" : "it is '" + excerpt(from) + "'",
               "aiconfigurator or llmservingsim"});
}

} // namespace imported
