// SPDX-License-Identifier: Apache-2.0
// Compares outputs and inputs by the files that their names refer to.
#include "run/outputs.hpp"

#include "sluice/report/unfinished_file.hpp"

#include "run/model.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace running {

using namespace sluice;
namespace fs = std::filesystem;

namespace {

/// The file that a name refers to; it need not exist.
fs::path leads_to(const fs::path& name) {
  std::error_code wrong;
  const fs::path absolute = fs::absolute(UnfinishedFile::target(name.string()), wrong);
  const fs::path whole = fs::weakly_canonical(absolute, wrong);
  return wrong ? absolute : whole;
}

/// Whether a model's or profile's reader uses this file of its folder. Other files may be there: an output may be next
/// to its model.
bool is_read(const fs::path& file) {
  for (const std::string_view name :
       {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
        "vocab.json", "merges.txt", "tokenizer.model", "model.safetensors.index.json", "device.json"})
    if (file.filename() == name) return true;
  return file.extension() == ".safetensors" || file.extension() == ".csv";
}

using Named = std::pair<std::string, fs::path>;

void add_folder(const char* flag, const std::string& folder, std::vector<Named>& inputs) {
  std::error_code wrong;
  for (fs::recursive_directory_iterator it(folder, wrong), end; !wrong && it != end; it.increment(wrong)) {
    std::error_code ignored;
    if (is_read(it->path()) && fs::is_regular_file(it->path(), ignored))
      inputs.emplace_back(std::string{flag} + "'s " + it->path().filename().string(), leads_to(it->path()));
  }
}

} // namespace

Status check_outputs(const Options& options, const std::vector<NamedFile>& also_read,
                     const std::vector<NamedFile>& also_written) {
  std::vector<Named> taken;
  if (!is_made(options.model)) add_folder("--model", model_folder(options.model), taken);
  if (!options.profile.empty()) add_folder("--profile", options.profile, taken);
  std::vector<NamedFile> read{{"--trace", options.trace}, {"--replay-clock", options.replay_clock}};
  read.insert(read.end(), also_read.begin(), also_read.end());
  for (const auto& [flag, path] : read)
    if (!path.empty()) taken.emplace_back(flag, leads_to(path));
  std::vector<NamedFile> written{{"--logits", options.logits},
                                 {"--timeline", options.timeline},
                                 {"--decisions", options.decisions},
                                 {"--record-clock", options.record_clock}};
  written.insert(written.end(), also_written.begin(), also_written.end());
  for (const auto& [flag, path] : written) {
    if (path.empty()) continue;
    fs::path output = leads_to(path);
    std::error_code none;
    if (fs::is_character_file(output, none)) continue; // such as /dev/null: no file would be replaced
    for (const auto& [who, file] : taken)
      if (file == output) return flag_error(flag, path + " is the file of " + who, "another name");
    taken.emplace_back(flag, std::move(output));
  }
  return {};
}

} // namespace running
