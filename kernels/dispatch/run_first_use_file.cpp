#include "warptape/kernels/dispatch/run_first_use_file.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "warptape/core/build_info.h"
#include "warptape/core/cache_folder.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/tab_fields.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/dispatch/run_tune_file.h"

namespace wt::detail {
namespace {

constexpr const char* kMagic = "warptape first uses 1";

// Results of one build on one device under one driver.
std::string header_of(Device d) {
  const BuildInfo& b = build_info();
  std::string driver;
  if (d.kind == DeviceKind::cuda) driver = str(cuda::properties(d.index).driver);
  return as_field(str(kMagic)) + "\t" + as_field(str(b.version, " ", b.commit)) + "\t" +
         as_field(tune_device_name(d)) + "\t" + as_field(driver);
}

std::string default_path(Device d) {
  const std::string folder = user_cache_folder();
  if (folder.empty()) return {};
  std::string name = tune_device_name(d);
  for (char& c : name)
    if (!std::isalnum(u8(c))) c = '-';
  return str(folder, "/first-use-", name, ".tsv");
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "unknown";
  return as_field(name);
}
bool is_alive(const std::string& pid) {
  const long id = std::strtol(pid.c_str(), nullptr, 10);
  return id > 0 && (::kill(pid_t(id), 0) == 0 || errno == EPERM);
}

}  // namespace

std::string FirstUseFile::text_of(const TriedKind& k) {
  return str(k.contract, "\t", k.variant, "\t", dtype_name(k.dtype), "\t", k.size, "\t", k.layout);
}

FirstUseFile::FirstUseFile(Device d) {
  const char* asked = std::getenv("WT_FIRST_USE");
  asked_for_ = asked && *asked;
  path_ = asked_for_ ? asked : default_path(d);
  if (path_.empty()) return;
  try {
    header_ = header_of(d);
    begin_anew_ = !read();
  } catch (const Error& e) {
    cannot_keep(e);
  }
}

void FirstUseFile::cannot_keep(const Error& e) {
  if (asked_for_) throw UsageError(str("WT_FIRST_USE: ", e.what()));
  warn_once(path_, str("first uses of kernels are not kept: ", e.what()));
  path_.clear();
}

// False: there is no file of this build, device and driver.
bool FirstUseFile::read() {
  std::error_code error;
  if (!std::filesystem::exists(path_, error)) return false;
  if (!std::filesystem::is_regular_file(path_, error))
    throw DataError(str(path_, " is no regular file"));
  std::ifstream in(path_, std::ios::binary);
  std::string line;
  if (!in) throw DataError(str(path_, " cannot be read: ", std::strerror(errno)));
  std::getline(in, line);
  if (!line.empty() && !line.starts_with(kMagic))
    throw DataError(str(path_, " is no file of first uses"));
  if (line != header_) return false;
  // A line that was cut off, or is not one, says nothing. What was being tried when its process
  // ended is off; that of a process which lives, or of another machine, may be on its way.
  std::map<std::string, std::pair<std::string, std::string>> trying;
  const std::string host = host_name();
  while (std::getline(in, line) && !in.eof()) {
    const std::vector<std::string_view> f = fields_of(line);
    if (f.size() < 6) continue;
    const std::string kind = str(f[1], "\t", f[2], "\t", f[3], "\t", f[4], "\t", f[5]);
    if (f[0] == "trying" && f.size() == 8) {
      if (f[6] == host && !is_alive(std::string(f[7])))
        trying[kind] = {std::string(f[1]), std::string(f[2])};
      continue;
    }
    trying.erase(kind);
    if (f[0] == "agreed") agreed_.insert(kind);
    if (f[0] == "off" && f.size() == 7) off_[{std::string(f[1]), std::string(f[2])}] = f[6];
  }
  for (const auto& [kind, variant] : trying) off_[variant] = "the process ended while it ran";
  return true;
}

void FirstUseFile::begin_anew() {
  std::error_code error;  // the write names what is wrong
  std::filesystem::create_directories(std::filesystem::absolute(path_, error).parent_path(), error);
  try {
    write_file_atomically(path_, header_ + "\n", {.durable = false});
  } catch (const Error& e) {
    cannot_keep(e);
  }
}

std::string FirstUseFile::off(const std::string& contract, const std::string& variant) const {
  const auto found = off_.find({contract, variant});
  return found == off_.end() ? "" : found->second;
}

// One write of a whole line at the end: those of several processes stay apart.
void FirstUseFile::append(const std::string& line) {
  if (begin_anew_ && !read()) begin_anew();  // another process may have begun it by now
  begin_anew_ = false;
  if (path_.empty()) return;
  const int fd = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  const std::string text = line + "\n";
  const bool written = fd >= 0 && ::write(fd, text.data(), text.size()) == ssize_t(text.size());
  if (!written)
    warn_once(path_,
              str("first uses of kernels are not kept: ", path_, ": ", std::strerror(errno)));
  if (fd >= 0) ::close(fd);
}

void FirstUseFile::trying(const TriedKind& k) {
  append(str("trying\t", text_of(k), "\t", host_name(), "\t", ::getpid()));
}
void FirstUseFile::ran(const TriedKind& k) { append("ran\t" + text_of(k)); }
void FirstUseFile::put_agreed(const TriedKind& k) {
  agreed_.insert(text_of(k));
  append("agreed\t" + text_of(k));
}
void FirstUseFile::put_off(const TriedKind& k, const std::string& why) {
  off_[{k.contract, k.variant}] = as_field(why);
  append(str("off\t", text_of(k), "\t", as_field(why)));
}

}  // namespace wt::detail
