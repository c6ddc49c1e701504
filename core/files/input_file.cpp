#include "warptape/core/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "warptape/core/files/json.h"

namespace wt {

void data_error(const std::string& path, u64 offset, const std::string& message) {
  throw DataError(str(printable_path(path), ": at byte ", offset, ": ", message));
}

namespace {

void append_hex(std::string& out, unsigned char byte) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x20 && byte < 0x7f;
    if (out.size() + (plain ? 1 : 4) > limit) return out + "...";
    if (plain) {
      out += c;
    } else {
      append_hex(out, byte);
    }
  }
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t length = utf8_length(text);
    const bool control = (lead < 0x20 && lead != '\n' && lead != '\t') || lead == 0x7f;
    const bool control_of_two = length == 2 && lead == 0xc2 && static_cast<u8>(text[1]) < 0xa0;
    if (length > 0 && !control && !control_of_two)
      out += text.substr(0, length);
    else
      for (std::size_t i = 0; i < std::max<std::size_t>(length, 1); ++i)
        append_hex(out, static_cast<unsigned char>(text[i]));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  const auto refuse = [&](const std::string& why) {
    if (fd_ >= 0) ::close(fd_);
    throw DataError(str(printable_path(path_), ": cannot be read: ", why));
  };
  // O_NONBLOCK: opening a FIFO must not wait for its writer; it has no effect on regular files.
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) refuse(std::strerror(errno));
  struct stat info;
  if (::fstat(fd_, &info) != 0) refuse(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) {
    refuse(S_ISDIR(info.st_mode) ? "it is a directory" : "it is not a regular file");
  }
  size_ = static_cast<u64>(info.st_size);
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), size_(other.size_), fd_(std::exchange(other.fd_, -1)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(size_, other.size_);
  std::swap(fd_, other.fd_);
  return *this;
}

void InputFile::read(u64 offset, void* dst, u64 bytes, std::string_view what) const {
  if (offset > size_ || bytes > size_ - offset) {
    data_error(path_, size_,
               str(what, " needs ", bytes, " bytes from byte ", offset, ", the file has ", size_,
                   " (truncated download?)"));
  }
  auto* out = static_cast<char*>(dst);
  while (bytes > 0) {
    const u64 chunk = std::min<u64>(bytes, u64{1} << 30);
    const ssize_t got = ::pread(fd_, out, chunk, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) data_error(path_, offset, str("reading ", what, ": ", std::strerror(errno)));
    if (got == 0) data_error(path_, offset, str("the file shrank while ", what, " was read"));
    out += got;
    offset += static_cast<u64>(got);
    bytes -= static_cast<u64>(got);
  }
}

}  // namespace wt
