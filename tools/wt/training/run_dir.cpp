#include "warptape/tools/wt/training/run_dir.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>

#include "warptape/core/safetensors.h"

namespace wt::tools {
namespace {

constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";

std::string checkpoint_name(i64 step) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%06lld", static_cast<long long>(step));
  return std::string(kPrefix) + digits + std::string(kSuffix);
}

// The step of a name that checkpoint_name() gives, -1 for any other: nothing else is ever loaded or
// removed.
i64 step_of_name(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return -1;
  i64 step = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  return step >= 0 && checkpoint_name(step) == name ? step : -1;
}

// -1 also where it cannot be read, or is a pipe: it is a hint and no more.
i64 step_of_latest(const std::string& folder) try {
  const InputFile file(folder + "/latest");
  char text[64];
  const u64 size = std::min<u64>(file.size(), sizeof text);
  file.read(0, text, size, "latest");
  std::string_view name(text, size);
  if (name.ends_with('\n')) name.remove_suffix(1);
  return step_of_name(name);
} catch (const DataError&) {
  return -1;
}

std::string path_of(const std::string& folder, i64 step) {
  return folder + "/" + checkpoint_name(step);
}

std::vector<Checkpoint> checkpoints_in(const std::string& folder) {
  std::vector<Checkpoint> out;
  DIR* const dir = ::opendir(folder.c_str());
  if (!dir) return out;
  while (const dirent* const entry = ::readdir(dir)) {
    const i64 step = step_of_name(entry->d_name);
    if (step >= 0) out.push_back({step, path_of(folder, step)});
  }
  ::closedir(dir);
  std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.step > b.step; });
  return out;
}

std::optional<FoundCheckpoint> newest_valid_in(const std::string& folder) {
  std::vector<Checkpoint> candidates = checkpoints_in(folder);
  const i64 latest = step_of_latest(folder);
  std::stable_partition(candidates.begin(), candidates.end(),
                        [&](const Checkpoint& c) { return c.step == latest; });
  FoundCheckpoint found;
  for (const Checkpoint& candidate : candidates) {
    try {
      SafetensorsFile::open(candidate.path).verify();
      found.checkpoint = candidate;
      return found;
    } catch (const DataError& e) {
      found.rejected.push_back(e.what());
    }
  }
  if (found.rejected.empty()) return {};
  std::string message = printable(folder, 400) + ": no checkpoint can be read";
  for (const std::string& reason : found.rejected) message += "\n  " + reason;
  throw DataError(message);
}

}  // namespace

RunDirectory::RunDirectory(const std::string& path) : lock_(path), checkpoints_(path + "/ckpt") {
  if (::mkdir(checkpoints_.c_str(), 0777) != 0 && errno != EEXIST) {
    throw CheckpointError(
        str(printable(checkpoints_, 400), " cannot be written: ", std::strerror(errno)));
  }
  // We hold the lock: every temporary file is a dead writer's, whatever the clock says (it may have
  // been set back).
  remove_stale_temp_files(checkpoints_, std::numeric_limits<double>::infinity());
}

std::string RunDirectory::checkpoint_path(i64 step) const { return path_of(checkpoints_, step); }

std::vector<Checkpoint> RunDirectory::checkpoints() const { return checkpoints_in(checkpoints_); }

std::optional<FoundCheckpoint> RunDirectory::newest_valid() const {
  return newest_valid_in(checkpoints_);
}

std::string checkpoint_of(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return path;
  const std::string folder = path + "/ckpt", best = folder + "/best.safetensors";
  if (::stat(best.c_str(), &info) == 0) return best;
  const std::optional<FoundCheckpoint> found = newest_valid_in(folder);
  if (!found) throw DataError(str(printable(path, 400), ": the folder has no checkpoint"));
  return found->checkpoint.path;
}

void RunDirectory::published(i64 step, int keep) {
  write_file_atomically(checkpoints_ + "/latest", checkpoint_name(step) + "\n");
  // Only now: before, the new one might not have survived a power loss.
  const std::vector<Checkpoint> all = checkpoints();
  for (std::size_t i = static_cast<std::size_t>(std::max(keep, 2)); i < all.size(); ++i) {
    if (all[i].step != step) ::unlink(all[i].path.c_str());
  }
}

}  // namespace wt::tools
