#include "warptape/data/tfrecord.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "warptape/core/factories.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/crc32c.h"
#include "warptape/core/input_file.h"
#include "warptape/data/bytes.h"
#include "warptape/data/tfrecord_parts.h"

namespace wt::data {
namespace {

constexpr u64 kTfHead = 12, kTfFoot = 4;

u32 tf_crc_of_length(const char* head) {
  u32 crc;
  std::memcpy(&crc, head + 8, 4);
  return crc;
}

// The length that a record's head says. DataError for a wrong check sum.
u64 tf_length(const char* head, const std::string& path, u64 at) {
  u64 length;
  std::memcpy(&length, head, 8);
  if (tf_crc_of_length(head) != masked_crc32c(head, 8))
    data_error(path, at, "not a TFRecord: the check sum of a record's length is wrong");
  return length;
}

void check_tf_bytes(std::string_view record, const char* foot, const std::string& path, u64 at) {
  u32 crc;
  std::memcpy(&crc, foot, 4);
  if (crc != masked_crc32c(record.data(), record.size()))
    data_error(path, at + kTfHead,
               str("a record of ", record.size(),
                   " bytes is damaged: its check "
                   "sum is wrong"));
}

[[noreturn]] void cut_short(const std::string& path, u64 at, u64 needs, u64 left) {
  data_error(path, at,
             str("a record needs ", needs, " bytes, ", left,
                 " are left (truncated download?)\n  Try allow_partial_tail for the others"));
}
[[noreturn]] void too_long(const std::string& path, u64 at, u64 length, u64 most) {
  data_error(path, at,
             str("a record of ", length, " bytes, at most ", most, " (ParseLimits::max_bytes)"));
}

}  // namespace

bool begins_with_tfrecord(std::string_view head) {
  return head.size() >= kTfHead && tf_crc_of_length(head.data()) == masked_crc32c(head.data(), 8);
}

// RFC 1950, 2.2: deflate with a window of 32 KiB, no dictionary, and check bits.
bool is_zlib_tfrecord(const std::string& path) {
  const InputFile file(path);
  char head[kTfHead] = {};
  const u64 n = std::min<u64>(file.size(), kTfHead);
  file.read(0, head, n, "a record's length");
  const unsigned first = u8(head[0]), second = u8(head[1]);
  // A plain file that ends within its first length has zeros there; the shortest stream, of
  // nothing, has 8 bytes and ends with a check sum that is not 0.
  if (n < kTfHead && (n < 8 || std::all_of(head + 4, head + 8, [](char c) { return c == 0; })))
    return false;
  return first == 0x78 && !(second & 0x20) && (first << 8 | second) % 31 == 0 &&
         !begins_with_tfrecord({head, n});
}

std::vector<std::string> files_of_pattern(const std::string& pattern) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(pattern, error)) return {pattern};
  const fs::path p(pattern), folder = p.has_parent_path() ? p.parent_path() : fs::path(".");
  std::vector<std::string> files;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (::fnmatch(p.filename().c_str(), at->path().filename().c_str(), FNM_PERIOD) == 0)
      files.push_back((p.has_parent_path() ? at->path() : at->path().filename()).string());
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw DataError(str(printable_path(pattern), ": cannot be read: no file has such a name"));
  return files;
}

struct TfRecordReader::Impl {
  Content file;
  TfRecordOptions o;
  u64 at = 0;
  bool done = false;
  std::vector<u8> bytes{};

  Impl(const std::string& path, const TfRecordOptions& options)
      : file(path, options.limits, is_zlib_tfrecord(path)), o(options) {}

  bool end() {
    done = true;
    return false;
  }
  // False if the file ended before `n` bytes and that may be.
  bool fill(u64 n, u64 begin) {
    bytes.clear();
    file.append(bytes, n);
    if (bytes.size() == n) return true;
    if (o.allow_partial_tail) return false;
    cut_short(file.path(), begin, n, bytes.size());
  }
};

TfRecordReader::TfRecordReader(const std::string& path, const TfRecordOptions& o)
    : impl_(std::make_unique<Impl>(path, o)) {}
TfRecordReader::~TfRecordReader() = default;
u64 TfRecordReader::offset() const { return impl_->at; }

bool TfRecordReader::next(std::string& record) {
  Impl& r = *impl_;
  const std::string& path = r.file.path();
  char head[kTfHead];
  const u64 got = r.done ? 0 : r.file.read(head, kTfHead);
  if (got == 0) return r.end();
  if (got < kTfHead) {
    if (r.o.allow_partial_tail) return r.end();
    cut_short(path, r.at, kTfHead, got);
  }
  const u64 length = tf_length(head, path, r.at);
  const u64 most = std::min(r.o.limits.max_bytes, u64(INT64_MAX));
  if (length > most) too_long(path, r.at, length, most);
  const u64 all = kTfHead + length + kTfFoot;
  if (const auto size = r.file.size(); size && all > *size - r.at) {
    if (!r.o.allow_partial_tail) cut_short(path, r.at, all, *size - r.at);
    return r.end();
  }
  if (!r.fill(length + kTfFoot, r.at)) return r.end();
  record.assign(reinterpret_cast<const char*>(r.bytes.data()), length);
  check_tf_bytes(record, reinterpret_cast<const char*>(r.bytes.data()) + length, path, r.at);
  r.at += kTfHead + length + kTfFoot;
  return true;
}

struct TfRecordWriter::Impl {
  AtomicFile file;
  std::string pending{};
  explicit Impl(const std::string& path) : file(path) {}
};
TfRecordWriter::TfRecordWriter(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
TfRecordWriter::~TfRecordWriter() = default;

void TfRecordWriter::add(std::string_view record) {
  const auto put = [&](auto v) {
    impl_->pending.append(reinterpret_cast<const char*>(&v), sizeof v);
  };
  const u64 length = record.size();
  put(length);
  put(masked_crc32c(&length, 8));
  impl_->pending += record;
  put(masked_crc32c(record.data(), record.size()));
  if (impl_->pending.size() < (u64{1} << 20)) return;
  impl_->file.write(impl_->pending);
  impl_->pending.clear();
}
void TfRecordWriter::finish() {
  impl_->file.write(impl_->pending);
  impl_->pending.clear();
  impl_->file.commit();
}

struct TfRecords::Impl {
  // A plain file's offsets, the end behind the last; or a packed file's records.
  struct File {
    std::optional<InputFile> file{};
    std::string path{};
    std::vector<u64> offsets{};
    std::vector<std::string> records{};
    i64 size() const { return file ? i64(offsets.size()) - 1 : i64(records.size()); }
  };
  TfRecordsOptions o;
  std::vector<File> files;
  std::vector<i64> starts;
  i64 size = 0;

  const File& find(i64& i) const {
    detail::check_sample("TfRecords", i, size);
    const auto k = std::upper_bound(starts.begin(), starts.end(), i) - starts.begin() - 1;
    i -= starts[size_t(k)];
    return files[size_t(k)];
  }
  void check_count(const File& f, u64 n, u64 at) const {
    if (n >= o.limits.max_items)
      data_error(f.path, at, str("more than ", n, " records (ParseLimits::max_items)"));
  }
  void index(File& f) const {
    const u64 size = f.file->size();
    f.offsets.push_back(0);
    for (u64 at = 0; at < size; f.offsets.push_back(at)) {
      check_count(f, f.offsets.size() - 1, at);
      char head[kTfHead];
      if (size - at < kTfHead) {
        if (o.allow_partial_tail) return;
        cut_short(f.path, at, kTfHead, size - at);
      }
      f.file->read(at, head, kTfHead, "a record's length");
      const u64 length = tf_length(head, f.path, at), left = size - at - kTfHead;
      if (length > left || left - length < kTfFoot) {
        if (o.allow_partial_tail) return;
        cut_short(f.path, at, length, left);
      }
      if (length > o.limits.max_bytes) too_long(f.path, at, length, o.limits.max_bytes);
      at += kTfHead + length + kTfFoot;
    }
  }
  File open(const std::string& path) const {
    File f{.file = InputFile(path), .path = path};
    if (Content(path, o.limits, is_zlib_tfrecord(path)).size()) {
      index(f);
      return f;
    }
    f.file.reset();
    TfRecordReader reader(path, {.allow_partial_tail = o.allow_partial_tail, .limits = o.limits});
    for (std::string record; reader.next(record); f.records.push_back(record))
      check_count(f, f.records.size(), reader.offset());
    return f;
  }
};

TfRecords::TfRecords(const std::string& pattern, const TfRecordsOptions& o) {
  auto s = std::make_shared<Impl>();
  s->o = o;
  for (const std::string& path : files_of_pattern(pattern)) {
    s->files.push_back(s->open(path));
    s->starts.push_back(s->size);
    s->size += s->files.back().size();
  }
  impl_ = std::move(s);
}

i64 TfRecords::size() const { return impl_->size; }
std::vector<std::string> TfRecords::files() const {
  std::vector<std::string> names;
  for (const Impl::File& f : impl_->files) names.push_back(f.path);
  return names;
}

std::string TfRecords::bytes(i64 i) const {
  const Impl::File& f = impl_->find(i);
  if (!f.file) return f.records[size_t(i)];
  const u64 at = f.offsets[size_t(i)], n = f.offsets[size_t(i) + 1] - at - kTfHead;
  std::string record(n, '\0');
  f.file->read(at + kTfHead, record.data(), n, "a record");
  check_tf_bytes({record.data(), n - kTfFoot}, record.data() + n - kTfFoot, f.path, at);
  record.resize(n - kTfFoot);
  return record;
}

TfExample TfRecords::get(i64 i) const {
  const std::string record = bytes(i);
  const Impl::File& f = impl_->find(i);
  const u64 at = f.file ? f.offsets[size_t(i)] + kTfHead : 0;
  return parse_tf_example(record, f.path, at, impl_->o.limits);
}

namespace {

// Stacks one feature of some examples.
template <class T>
Tensor stack_feature(const std::vector<TfExample>& rows, const std::string& name) {
  const size_t n = std::get<std::vector<T>>(*find_feature(rows[0], name)).size();
  Shape shape{rows.size()};
  if (n != 1) shape.push_back(i64(n));
  Tensor t = empty(shape, {.dtype = std::is_same_v<T, float> ? DType::f32 : DType::i64,
                           .device = Device::cpu()});
  T* to = t.mutable_data<T>();
  for (const TfExample& row : rows) {
    const TfFeature* const f = find_feature(row, name);
    const auto* const values = f ? std::get_if<std::vector<T>>(f) : nullptr;
    if (!values || values->size() != n)
      throw UsageError(str("[TfRecords] feature '", printable(name),
                           "' has not the same type and length in every record (", n,
                           " values in the batch's first)\n  Try get()"));
    to = std::copy(values->begin(), values->end(), to);
  }
  return t;
}

Tensor feature_batch(const std::vector<TfExample>& rows, const std::string& name) {
  if (rows.empty()) return empty({0}, {.dtype = DType::f32, .device = Device::cpu()});
  const TfFeature* const first = find_feature(rows[0], name);
  if (first && std::holds_alternative<std::vector<float>>(*first))
    return stack_feature<float>(rows, name);
  if (first && std::holds_alternative<std::vector<i64>>(*first))
    return stack_feature<i64>(rows, name);
  throw UsageError(str("[TfRecords] feature '", printable(name), "' ",
                       first ? "has no numbers" : "is not in the record", "\n  Try get()"));
}

}  // namespace

Batch TfRecords::batch(std::span<const i64> indices) const {
  std::vector<TfExample> rows;
  for (const i64 i : indices) rows.push_back(get(i));
  return {feature_batch(rows, impl_->o.x), feature_batch(rows, impl_->o.y)};
}

}  // namespace wt::data
