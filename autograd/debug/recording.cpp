// The file of a Recorder: "WTTENS" and a version, a JSON header, and a block a step. Numbers are
// little-endian; header and blocks have CRC-32C sums, so that a block is whole, cut off by the end
// of the file, or damage.
#include "warptape/autograd/recording.h"

#include <bit>
#include <cstring>
#include <limits>

#include "warptape/core/files/crc32c.h"
#include "warptape/core/files/file_kind.h"
#include "warptape/core/files/json.h"

namespace wt::record {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[8] = {'W', 'T', 'T', 'E', 'N', 'S', '1', '\n'};
constexpr u32 kStepMagic = 0x50455453;  // "STEP"
constexpr u64 kFileHead = 16, kStepHead = 24;
constexpr int kMostRanks = 1 << 20;

template <class T>
void put(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof bytes);
}

// Takes numbers off a block, which lies at byte `base` of the file.
class Bytes {
 public:
  Bytes(std::string_view bytes, const std::string& path, u64 base)
      : bytes_(bytes), path_(path), base_(base) {}
  template <class T>
  T take() {
    T value;
    need(sizeof value);
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string text(u32 length) {
    need(length);
    at_ += length;
    return std::string(bytes_.substr(at_ - length, length));
  }
  // One of `count` things.
  u32 below(u32 count, const char* what) {
    const u32 value = take<u32>();
    if (value >= count) fail(str(what, " ", value, " of ", count));
    return value;
  }
  u32 byte_below(u32 count, const char* what) {
    const u32 value = take<u8>();
    if (value >= count) fail(str(what, " ", value, " of ", count));
    return value;
  }
  u64 left() const { return bytes_.size() - at_; }
  [[noreturn]] void fail(const std::string& why) const { data_error(path_, base_ + at_, why); }

 private:
  void need(u64 bytes) const {
    if (left() < bytes) fail(str("the step ends ", bytes - left(), " bytes too early"));
  }
  std::string_view bytes_;
  const std::string& path_;
  u64 base_;
  u64 at_ = 0;
};

void put_entry(std::string& to, const Entry& e) {
  for (const u32 of : {e.op, e.inside, e.module, e.line, e.kernel}) put(to, of);
  put(to, e.index);
  put(to, u8(e.what));
  put(to, u8(e.backward | e.sum << 1));
  put(to, u8(e.dtype));
  put(to, u8(e.shape.size()));
  for (const i64 s : e.shape) put(to, s);
  const Digest& d = e.digest;
  put(to, d.hash);
  put(to, d.nonfinite);
  for (const double x : {d.mean, d.rms, d.largest}) put(to, x);
  for (const double x : d.samples) put(to, x);
  const i64 used = std::min<i64>(e.numel(), kSketch);  // the others are 0
  for (i64 k = 0; k < used; ++k) put(to, d.sketch[size_t(k)]);
}

// 20 + 6 bytes, a hash, a count, 7 doubles.
constexpr u64 kLeastEntry = 98;

i64 take_shape(Bytes& from, Entry& e, u32 ndim) {
  i64 numel = 1;
  for (u32 k = 0; k < ndim; ++k) {
    const i64 size = from.take<i64>();
    if (size < 0 || !mul_fits(numel, size, numel)) from.fail(str("a dimension of ", size));
    e.shape.push_back(size);
  }
  return numel;
}

Entry take_entry(Bytes& from, u32 strings) {
  Entry e;
  for (u32* of : {&e.op, &e.inside, &e.module, &e.line, &e.kernel})
    *of = from.below(strings, "string");
  e.index = from.take<u16>();
  e.what = What(from.byte_below(3, "kind of entry"));
  const u32 flags = from.byte_below(4, "flags");
  e.backward = flags & 1;
  e.sum = flags & 2;
  e.dtype = DType(from.byte_below(kNumDTypes, "dtype"));
  const i64 numel = take_shape(from, e, from.byte_below(kMaxDims + 1, "number of dimensions"));
  Digest& d = e.digest;
  d.hash = from.take<u64>();
  d.nonfinite = from.take<i64>();
  if (d.nonfinite < 0 || d.nonfinite > numel)
    from.fail(str(d.nonfinite, " elements of ", numel, " are not finite"));
  for (double* x : {&d.mean, &d.rms, &d.largest}) *x = from.take<double>();
  for (double& x : d.samples) x = from.take<double>();
  for (i64 k = 0; k < std::min<i64>(numel, kSketch); ++k) d.sketch[size_t(k)] = from.take<double>();
  return e;
}

}  // namespace

std::string header_bytes(const RecordingHeader& h) {
  const std::string json = JsonObject()
                               .add("rank", h.rank)
                               .add("ranks", h.ranks)
                               .add("every", h.every)
                               .add("label", h.label)
                               .str();
  std::string out(kMagic, sizeof kMagic);
  put(out, u32(json.size()));
  put(out, crc32c(json.data(), json.size()));
  return out + json;
}

std::string step_bytes(const Step& s) {
  std::string body;
  put(body, u32(s.strings.size()));
  for (const std::string& text : s.strings) {
    put(body, u32(text.size()));
    body += text;
  }
  put(body, u32(s.entries.size()));
  for (const Entry& e : s.entries) put_entry(body, e);
  if (body.size() > std::numeric_limits<u32>::max())
    throw UsageError(str("[record] step ", s.number, " takes ", body.size(),
                         " bytes, and one of a file at most 4 GiB\n  Try fewer operators a step"));
  std::string out;
  put(out, kStepMagic);
  put(out, u32(body.size()));
  put(out, s.number);
  put(out, crc32c(body.data(), body.size()));
  put(out, crc32c(out.data(), out.size()));
  return out + body;
}

RecordingFile::RecordingFile(const std::string& path, const ParseLimits& limits)
    : file_(path), limits_(limits) {
  read_header();
}

void RecordingFile::read_header() {
  char head[kFileHead];
  const bool is_one = file_.size() >= kFileHead && [&] {
    file_.read(0, head, kFileHead, "the header");
    return std::memcmp(head, kMagic, sizeof kMagic) == 0;
  }();
  if (!is_one) {
    const std::string kind = kind_of_file(file_);
    data_error(
        path(), 0,
        kind.empty() ? "no recording of tensors (wt train --log-tensors)" : "this is " + kind);
  }
  u32 length, sum;
  std::memcpy(&length, head + 8, 4);
  std::memcpy(&sum, head + 12, 4);
  if (length > limits_.max_string || length > file_.size() - kFileHead)
    data_error(path(), 8, str("a header of ", length, " bytes"));
  std::string json(length, '\0');
  file_.read(kFileHead, json.data(), length, "the header");
  if (crc32c(json.data(), json.size()) != sum) data_error(path(), 12, "the header is damaged");
  JsonReader r(json, path(), kFileHead, limits_);
  r.expect('{');
  do {
    const std::string key = r.string();
    r.expect(':');
    if (key == "rank") {
      header_.rank = int(r.unsigned_int(kMostRanks));
    } else if (key == "ranks") {
      header_.ranks = int(r.unsigned_int(kMostRanks));
    } else if (key == "every") {
      header_.every = i64(r.unsigned_int(u64{1} << 62));
    } else if (key == "label") {
      header_.label = r.string();
    } else {
      r.skip_value();
    }
  } while (r.accept(','));
  r.expect('}');
  r.finish();
  at_ = kFileHead + length;
}

bool RecordingFile::next(Step& step) {
  const u64 left = file_.size() - at_;
  cut_off_ = left > 0;
  if (left < kStepHead) return false;
  char head[kStepHead];
  file_.read(at_, head, kStepHead, "a step");
  Bytes fields({head, kStepHead}, path(), at_);
  const u32 magic = fields.take<u32>(), length = fields.take<u32>();
  const i64 number = fields.take<i64>();
  const u32 sum = fields.take<u32>();
  if (fields.take<u32>() != crc32c(head, kStepHead - 4) || magic != kStepMagic)
    data_error(path(), at_, "no step begins here: the file is damaged");
  if (left - kStepHead < length) return false;
  if (number <= last_) data_error(path(), at_, str("step ", number, " comes after step ", last_));
  if (length > limits_.max_bytes)
    data_error(path(), at_, str("a step of ", length, " bytes, at most ", limits_.max_bytes));
  std::string body(length, '\0');
  file_.read(at_ + kStepHead, body.data(), length, "a step");
  if (crc32c(body.data(), body.size()) != sum)
    data_error(path(), at_ + kStepHead, str("step ", number, " is damaged"));
  Bytes from(body, path(), at_ + kStepHead);
  step = {};
  step.number = last_ = number;
  const u32 strings = from.take<u32>();
  if (strings > from.left() / 4) from.fail(str(strings, " strings in ", from.left(), " bytes"));
  step.strings.reserve(strings);
  for (u32 k = 0; k < strings; ++k) step.strings.push_back(from.text(from.take<u32>()));
  const u32 entries = from.take<u32>();
  if (entries > from.left() / kLeastEntry)
    from.fail(str(entries, " entries in ", from.left(), " bytes"));
  step.entries.reserve(entries);
  for (u32 k = 0; k < entries; ++k) step.entries.push_back(take_entry(from, strings));
  if (from.left()) from.fail(str(from.left(), " bytes after the last entry"));
  at_ += kStepHead + length;
  cut_off_ = false;
  return true;
}

}  // namespace wt::record
