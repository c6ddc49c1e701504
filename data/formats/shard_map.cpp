#include "warptape/data/formats/shard_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/crc32c.h"
#include "warptape/core/input_file.h"
#include "warptape/data/formats/shard_parts.h"

namespace wt::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStampFirst = "wtshard verified 1\n";

std::string stamp_folder_of(const std::string& file) {
  const std::string folder = fs::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

detail::FileIdentity detail::FileIdentity::of(const struct stat& info) {
  const auto ns = [](const timespec& t) { return i64(t.tv_sec) * 1'000'000'000 + t.tv_nsec; };
  return {u64(info.st_size), u64(info.st_ino), ns(info.st_mtim), ns(info.st_ctim)};
}

std::string detail::stamp_path(const std::string& folder) { return folder + "/VERIFIED"; }

std::string detail::stamp_text(const std::vector<StampLine>& lines) {
  std::string text = kStampFirst;
  for (const StampLine& l : lines)
    text += str(l.name, " ", l.file.size, " ", l.file.inode, " ", l.file.modified, " ",
                l.file.changed, " ", l.footer_crc, "\n");
  return text + str("crc ", crc32c(text.data(), text.size()), "\n");
}

std::vector<detail::StampLine> detail::read_stamp(const std::string& folder) {
  std::vector<StampLine> lines;
  try {
    const std::string path = stamp_path(folder);
    const InputFile file(path);
    if (file.size() > u64{64} << 20) return {};
    std::string text(file.size(), '\0');
    file.read(0, text.data(), text.size(), "the stamp");
    std::istringstream in(text.substr(std::min(text.size(), std::strlen(kStampFirst))));
    for (std::string name; in >> name && name != "crc";) {
      StampLine l{.name = name, .file = {}};
      in >> l.file.size >> l.file.inode >> l.file.modified >> l.file.changed >> l.footer_crc;
      lines.push_back(l);
    }
    // What is not exactly as it is written is no stamp.
    return text == stamp_text(lines) ? lines : std::vector<StampLine>();
  } catch (const DataError&) {
    return {};
  }
}

std::shared_ptr<detail::ShardMap> detail::ShardMap::of(const std::string& path,
                                                       const StampLine& stamp) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info;
  if (fd < 0) return nullptr;
  void* at = MAP_FAILED;
  if (::fstat(fd, &info) == 0 && FileIdentity::of(info) == stamp.file && info.st_size > 0)
    at = ::mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    ::close(fd);
    return nullptr;
  }
  return std::shared_ptr<ShardMap>(
      new ShardMap(fd, static_cast<const char*>(at), FileIdentity::of(info)));
}

detail::ShardMap::~ShardMap() {
  ::munmap(const_cast<char*>(at_), file_.size);
  ::close(fd_);
}

std::string_view detail::ShardMap::bytes(const std::string& path, u64 begin, u64 n) const {
  struct stat info;
  if (::fstat(fd_, &info) != 0) data_error(path, begin, std::strerror(errno));
  const FileIdentity now = FileIdentity::of(info);
  if (now.size != file_.size || now.modified != file_.modified)
    data_error(path, begin,
               str("the file was changed while it was mapped: it had ", file_.size,
                   " bytes and has ", now.size));
  used_.store(true, std::memory_order_relaxed);
  return {at_ + begin, n};
}

void detail::ShardMap::let_go() const {
  if (used_.exchange(false, std::memory_order_relaxed))
    ::madvise(const_cast<char*>(at_), file_.size, MADV_DONTNEED);
}

ShardCheck verify_shards(const std::string& path, const std::function<void(u64)>& progress,
                         const ParseLimits& limits) {
  const auto identities = [&] {
    std::vector<detail::StampLine> lines;
    for (const std::string& file : detail::shard_files(path)) {
      struct stat info {};
      if (::stat(file.c_str(), &info) != 0) return std::vector<detail::StampLine>();
      lines.push_back({fs::path(file).filename().string(), detail::FileIdentity::of(info), 0});
    }
    return lines;
  };
  std::vector<detail::StampLine> before = identities();
  ShardCheck check = check_shards(path, progress, limits);
  const std::vector<std::string> files = detail::shard_files(path);
  const std::string folder = stamp_folder_of(files[0]);
  // The other files' lines stay when one file is checked, those of damaged ones never do.
  std::vector<detail::StampLine> lines;
  if (files[0] == path)
    for (const detail::StampLine& l : detail::read_stamp(folder))
      if (l.name != fs::path(path).filename()) lines.push_back(l);
  if (check.damage.empty()) {
    if (identities() != before) {
      check.no_stamp = "the files changed while they were read";
      return check;
    }
    for (size_t i = 0; i < files.size(); ++i) {
      before[i].footer_crc = detail::ShardFile::open(files[i], limits).footer_crc;
      lines.push_back(before[i]);
    }
  }
  try {
    std::error_code ignored;
    if (lines.empty())
      fs::remove(detail::stamp_path(folder), ignored);
    else
      write_file_atomically(detail::stamp_path(folder), detail::stamp_text(lines));
    if (check.damage.empty()) check.stamp = detail::stamp_path(folder);
  } catch (const CheckpointError& e) {  // a folder that is only read: the check counts all the same
    check.no_stamp = e.what();
  }
  return check;
}

}  // namespace wt::data
