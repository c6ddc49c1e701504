#include "warptape/data/bytes.h"

#include <algorithm>

#include "warptape/config.h"
#if WARPTAPE_HAS_ZLIB
#include <zlib.h>
#endif

namespace wt::data {
namespace {

constexpr u64 kPiece = u64{1} << 20;

bool is_gzip(const InputFile& file) {
  u8 magic[2] = {};
  file.read(0, magic, std::min<u64>(file.size(), 2), "the file");
  return magic[0] == 0x1f && magic[1] == 0x8b;
}

}  // namespace

#if WARPTAPE_HAS_ZLIB
// One or more gzip members. The size in the trailer is not believed.
class Content::Inflater {
 public:
  explicit Inflater(const InputFile& file, u64 most) : file_(file), most_(most) {
    if (inflateInit2(&z_, 15 + 16) != Z_OK) throw OutOfMemory("zlib has no memory");
  }
  ~Inflater() { inflateEnd(&z_); }

  u64 read(u8* dst, u64 n) {
    u64 got = 0;
    while (got < n && !ended_) {
      refill();
      const uInt room = uInt(std::min<u64>(n - got, u64{1} << 30));
      z_.next_out = dst + got;
      z_.avail_out = room;
      const int status = inflate(&z_, Z_NO_FLUSH);
      got += room - z_.avail_out;
      check(status);
      if (given_ + got > most_)
        data_error(file_.path(), place(),
                   str("a gzip file of ", file_.size(), " bytes inflates to more than ", most_,
                       " (ParseLimits::max_inflated, max_bytes)\n  Try gunzip, if you trust it"));
    }
    given_ += got;
    return got;
  }

 private:
  bool empty() const { return z_.avail_in == 0 && at_ == file_.size(); }
  u64 place() const { return at_ - z_.avail_in; }

  void refill() {
    if (z_.avail_in > 0 || at_ == file_.size()) return;
    const u64 n = std::min<u64>(file_.size() - at_, sizeof buffer_);
    file_.read(at_, buffer_, n, "a gzip file");
    at_ += n;
    z_.next_in = buffer_;
    z_.avail_in = uInt(n);
  }
  void check(int status) {
    if (status == Z_STREAM_END) {
      ended_ = empty();
      if (!ended_ && inflateReset(&z_) != Z_OK)
        data_error(file_.path(), place(), "gzip member cannot be read");
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      data_error(file_.path(), place(), str("damaged gzip data: ", z_.msg ? z_.msg : "?"));
    } else if (empty() && z_.avail_out != 0) {
      data_error(file_.path(), place(), "the gzip data ends early (truncated download?)");
    }
  }

  const InputFile& file_;
  const u64 most_;
  z_stream z_{};
  u8 buffer_[1 << 16];
  u64 at_ = 0, given_ = 0;
  bool ended_ = false;
};
#else
class Content::Inflater {
 public:
  Inflater(const InputFile& file, u64) {
    throw NotAvailable(str(printable(file.path(), 400),
                           " is gzip and this build has no zlib\n  Try gunzip, or install "
                           "zlib1g-dev and configure again"));
  }
  u64 read(u8*, u64) { return 0; }
};
#endif

Content::Content(const std::string& path, const ParseLimits& limits) : file_(path) {
  if (file_.size() > limits.max_bytes)
    data_error(path, 0,
               str("the file has ", file_.size(), " bytes, the limit is ", limits.max_bytes));
  most_ = file_.size();
  if (!is_gzip(file_)) return;
  const u64 limit = limits.most_inflated(file_.size());
  most_ = std::min(file_.size() * kDeflateRatio, limit);
  inflater_ = std::make_unique<Inflater>(file_, limit);
}

Content::~Content() = default;

std::optional<u64> Content::size() const {
  return inflater_ ? std::nullopt : std::optional(file_.size());
}

u64 Content::read(void* dst, u64 n) {
  if (inflater_) return inflater_->read(static_cast<u8*>(dst), n);
  n = std::min(n, file_.size() - at_);
  file_.read(at_, dst, n, "the file");
  at_ += n;
  return n;
}

void Content::append(std::vector<u8>& out, u64 n) {
  // By pieces: what a gzip file will become is not known before.
  for (u64 got = 0, more = 1; got < n && more > 0; got += more) {
    const u64 begin = out.size(), piece = inflater_ ? kPiece : file_.size() - at_;
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

std::vector<u8> read_first_bytes(const std::string& path, size_t n) {
  Content file(path, {.max_bytes = ~u64{0}});
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
