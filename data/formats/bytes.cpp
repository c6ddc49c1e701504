#include "warptape/data/bytes.h"

#include <algorithm>

#include "warptape/config.h"
#include "warptape/core/build_info.h"
#if WARPTAPE_HAS_ZLIB
#include <zlib.h>
#endif
#if WARPTAPE_HAS_LZMA
#include <lzma.h>
#endif

namespace wt::data {
namespace {

constexpr u64 kPiece = u64{1} << 20;
#if WARPTAPE_HAS_LZMA
// xz -9 needs 65 MiB; a header may ask for four gigabytes.
constexpr u64 kXzMemory = u64{128} << 20;
#endif

enum class Packing { none, gzip, zlib, xz };
Packing packing_of(const InputFile& file) {
  static constexpr u8 kXz[6] = {0xfd, '7', 'z', 'X', 'Z', 0};
  u8 magic[sizeof kXz] = {};
  file.read(0, magic, std::min<u64>(file.size(), sizeof magic), "the file");
  if (magic[0] == 0x1f && magic[1] == 0x8b) return Packing::gzip;
  return std::equal(magic, magic + sizeof magic, kXz) ? Packing::xz : Packing::none;
}

#if !WARPTAPE_HAS_ZLIB || !WARPTAPE_HAS_LZMA
[[noreturn]] void no_library(const InputFile& file, const char* format, const char* library,
                             const char* part, const char* command) {
  throw NotAvailable(str(printable(file.path(), 400), " is ", format, " and this build has no ",
                         library, ": ", why_without(part), "\n  Try ", command));
}
#endif

}  // namespace

// What a packed file becomes, in pieces.
class Content::Unpacker {
 public:
  Unpacker(const InputFile& file, u64 most, const char* format, const char* command)
      : file_(file), most_(most), format_(format), command_(command) {}
  virtual ~Unpacker() = default;

  u64 read(u8* dst, u64 n) {
    u64 got = 0;
    while (got < n && !ended_) {
      refill();
      got += unpack(dst + got, n - got);
      if (given_ + got > most_)
        fail(str("a", format_[0] == 'x' ? "n " : " ", format_, " file of ", file_.size(),
                 " bytes inflates to more than ", most_,
                 " (ParseLimits::max_inflated, max_bytes)\n  Try ", command_, ", if you trust it"));
    }
    given_ += got;
    return got;
  }

 protected:
  // Takes from next_ what it can and gives at most `n` bytes; sets ended_ where nothing follows.
  virtual u64 unpack(u8* dst, u64 n) = 0;
  // Everything has been taken.
  bool empty() const { return left_ == 0 && at_ == file_.size(); }
  [[noreturn]] void fail(const std::string& message) const {
    data_error(file_.path(), at_ - left_, message);
  }
  const char* format() const { return format_; }

  const u8* next_ = nullptr;
  size_t left_ = 0;
  bool ended_ = false;

 private:
  void refill() {
    if (left_ > 0 || at_ == file_.size()) return;
    left_ = size_t(std::min<u64>(file_.size() - at_, sizeof buffer_));
    file_.read(at_, buffer_, left_, str("a file of ", format_));
    at_ += left_;
    next_ = buffer_;
  }

  const InputFile& file_;
  const u64 most_;
  const char *const format_, *const command_;
  u8 buffer_[1 << 16];
  u64 at_ = 0, given_ = 0;
};

#if WARPTAPE_HAS_ZLIB
// One or more gzip members, or zlib streams. The size in the trailer is not believed.
class Content::Gzip final : public Unpacker {
 public:
  Gzip(const InputFile& file, u64 most, bool zlib)
      : Unpacker(file, most, zlib ? "zlib" : "gzip", zlib ? "zlib-flate -uncompress" : "gunzip") {
    if (inflateInit2(&z_, zlib ? 15 : 15 + 16) != Z_OK) throw OutOfMemory("zlib has no memory");
  }
  ~Gzip() override { inflateEnd(&z_); }

 private:
  u64 unpack(u8* dst, u64 n) override {
    const uInt room = uInt(std::min<u64>(n, u64{1} << 30));
    z_.next_in = const_cast<u8*>(next_);  // zlib does not write there
    z_.avail_in = uInt(left_);
    z_.next_out = dst;
    z_.avail_out = room;
    const int status = inflate(&z_, Z_NO_FLUSH);
    next_ = z_.next_in;
    left_ = z_.avail_in;
    if (status == Z_STREAM_END) {
      ended_ = empty();
      if (!ended_ && inflateReset(&z_) != Z_OK) fail(str(format(), " data cannot be read"));
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail(str("damaged ", format(), " data: ", z_.msg ? z_.msg : "?"));
    } else if (empty() && z_.avail_out != 0) {
      fail(str("the ", format(), " data ends early (truncated download?)"));
    }
    return room - z_.avail_out;
  }

  z_stream z_{};
};
#else
class Content::Gzip final : public Unpacker {
 public:
  Gzip(const InputFile& file, u64, bool zlib) : Unpacker(file, 0, "", "") {
    no_library(file, zlib ? "zlib data" : "gzip", "zlib", "zlib",
               zlib ? "zlib-flate -uncompress" : "gunzip");
  }

 private:
  u64 unpack(u8*, u64) override { return 0; }
};
#endif

#if WARPTAPE_HAS_LZMA
// One or more xz streams, with padding between them, as the command reads them.
class Content::Xz final : public Unpacker {
 public:
  Xz(const InputFile& file, u64 most) : Unpacker(file, most, "xz", "unxz") {
    if (lzma_stream_decoder(&z_, kXzMemory, LZMA_CONCATENATED | LZMA_TELL_UNSUPPORTED_CHECK) !=
        LZMA_OK)
      throw OutOfMemory("liblzma has no memory");
  }
  ~Xz() override { lzma_end(&z_); }

 private:
  u64 unpack(u8* dst, u64 n) override {
    z_.next_in = next_;
    z_.avail_in = left_;
    z_.next_out = dst;
    z_.avail_out = n;
    left_ = 0;  // so that empty() tells whether more can follow
    const lzma_ret status = lzma_code(&z_, empty() ? LZMA_FINISH : LZMA_RUN);
    next_ = z_.next_in;
    left_ = z_.avail_in;
    check(status);
    return n - z_.avail_out;
  }
  void check(lzma_ret status) {
    switch (status) {
      case LZMA_OK:
        return;
      case LZMA_STREAM_END:
        ended_ = true;
        return;
      case LZMA_MEM_ERROR:
        throw OutOfMemory("liblzma has no memory");
      case LZMA_MEMLIMIT_ERROR:
        fail(str("the xz data needs ", lzma_memusage(&z_), " bytes to be unpacked, the limit is ",
                 kXzMemory, "\n  Try unxz, if you trust it"));
      case LZMA_BUF_ERROR:
        fail("the xz data ends early (truncated download?)");
      case LZMA_UNSUPPORTED_CHECK:
      case LZMA_OPTIONS_ERROR:
        fail("xz data with a filter or checksum that liblzma does not know");
      default:
        fail("damaged xz data");
    }
  }

  lzma_stream z_ = LZMA_STREAM_INIT;
};
#else
class Content::Xz final : public Unpacker {
 public:
  Xz(const InputFile& file, u64) : Unpacker(file, 0, "", "") {
    no_library(file, "xz", "liblzma", "lzma", "unxz");
  }

 private:
  u64 unpack(u8*, u64) override { return 0; }
};
#endif

Content::Content(const std::string& path, const ParseLimits& limits, bool zlib) : file_(path) {
  if (file_.size() > limits.max_bytes)
    data_error(path, 0,
               str("the file has ", file_.size(), " bytes, the limit is ", limits.max_bytes));
  most_ = file_.size();
  const Packing packing = zlib ? Packing::zlib : packing_of(file_);
  if (packing == Packing::none) return;
  most_ = limits.most_inflated(file_.size());
  if (packing == Packing::xz) {
    unpacker_ = std::make_unique<Xz>(file_, most_);
  } else {
    unpacker_ = std::make_unique<Gzip>(file_, most_, zlib);
    most_ = std::min(file_.size() * kDeflateRatio, most_);
  }
}

Content::~Content() = default;

std::optional<u64> Content::size() const {
  return unpacker_ ? std::nullopt : std::optional(file_.size());
}

u64 Content::read(void* dst, u64 n) {
  if (unpacker_) return unpacker_->read(static_cast<u8*>(dst), n);
  n = std::min(n, file_.size() - at_);
  file_.read(at_, dst, n, "the file");
  at_ += n;
  return n;
}

void Content::append(std::vector<u8>& out, u64 n) {
  // By pieces: what a packed file will become is not known before.
  for (u64 got = 0, more = 1; got < n && more > 0; got += more) {
    const u64 begin = out.size(), piece = unpacker_ ? kPiece : file_.size() - at_;
    out.resize(begin + std::min(n - got, piece));
    more = read(out.data() + begin, out.size() - begin);
    out.resize(begin + more);
  }
}

std::vector<u8> read_bytes(const std::string& path, const ParseLimits& limits) {
  Content file(path, limits);
  std::vector<u8> bytes;
  file.append(bytes, ~u64{0});
  return bytes;
}

std::vector<u8> read_text(const std::string& path, const ParseLimits& limits) {
  Content file(path, limits);
  std::vector<u8> bytes;
  i64 line = 1;
  for (u64 begin = 0;; begin = bytes.size()) {
    file.append(bytes, u64{1} << 20);
    if (bytes.size() == begin) return bytes;
    const auto from = bytes.begin() + i64(begin), nul = std::find(from, bytes.end(), u8{0});
    line += std::count(from, nul, u8{'\n'});
    if (nul != bytes.end())
      data_error(path, u64(nul - bytes.begin()),
                 str("line ", line, ": a NUL byte; this is no text"));
    if (const auto size = file.size(); size && begin == 0) bytes.reserve(size_t(*size));
  }
}

std::vector<u8> read_first_bytes(const std::string& path, size_t n, bool zlib) {
  Content file(path, {.max_bytes = ~u64{0}}, zlib);
  std::vector<u8> bytes;
  file.append(bytes, n);
  return bytes;
}

u64 content_size(const std::string& path) {
  Content file(path);
  if (const auto size = file.size()) return *size;
  std::vector<u8> piece(kPiece);
  u64 total = 0;
  while (const u64 more = file.read(piece.data(), piece.size())) total += more;
  return total;
}

}  // namespace wt::data
