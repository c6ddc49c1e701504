#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/crc32c.h"
#include "warptape/core/files/json.h"
#include "warptape/data/formats/shard_parts.h"

namespace wt::data {
namespace {

namespace fs = std::filesystem;

constexpr u64 kWritePiece = u64{1} << 20;
constexpr u64 kMostRecords = u64{1} << 20;  // of a file: readers hold 12 bytes of each

void check_field(const char* who, const ShardField& f, const std::vector<ShardField>& before) {
  if (f.name.empty() || f.name.size() > 255 || !is_utf8(f.name))
    throw UsageError(str("[", who, "] a field's name is 1 to 255 bytes of UTF-8, got '",
                         printable(f.name), "'"));
  for (const ShardField& b : before)
    if (b.name == f.name)
      throw UsageError(str("[", who, "] two fields are called '", printable(f.name), "'"));
  if (f.kind != ShardKind::tensor) {
    if (!f.shape.empty())
      throw UsageError(str("[", who, "] field '", printable(f.name), "' of bytes has a shape"));
    return;
  }
  if (f.shape.size() > size_t(kMaxDims))
    throw UsageError(str("[", who, "] field '", printable(f.name), "' has ", f.shape.size(),
                         " dimensions, at most ", kMaxDims));
  i64 extent = item_size(f.dtype);
  for (const i64 n : f.shape) {
    if (n < -1)
      throw UsageError(str("[", who, "] field '", printable(f.name), "' has a size of ", n,
                           ", expected -1 (ragged) or more"));
    if (n > 0 && !mul_fits(extent, n, extent))
      throw UsageError(str("[", who, "] the sizes of field '", printable(f.name), "' overflow"));
  }
}

void append_tensor(const char* who, std::string& to, const ShardField& f, const Tensor& given) {
  if (!given.defined())
    throw UsageError(str("[", who, "] field ", f.describe(), " got an undefined tensor"));
  if (given.dtype() != f.dtype)
    throw DtypeError(str("[", who, "] field ", f.describe(), " got ", dtype_name(given.dtype())));
  const Shape shape = given.shape();
  bool fits = size_t(shape.size()) == f.shape.size();
  for (size_t d = 0; fits && d < f.shape.size(); ++d)
    fits = f.shape[d] == -1 || f.shape[d] == shape[int(d)];
  if (!fits) throw ShapeError(str("[", who, "] field ", f.describe(), " got ", shape));
  for (size_t d = 0; d < f.shape.size(); ++d)
    if (f.shape[d] == -1) detail::append_le(to, u64(shape[int(d)]));
  const Tensor t = given.detach().to(Device::cpu()).contiguous();
  if (t.numel() > 0)
    to.append(static_cast<const char*>(t.impl()->data), size_t(t.numel() * item_size(f.dtype)));
}

void append_value(const char* who, std::string& to, const ShardField& f, const ShardValue& v) {
  const auto* const tensor = std::get_if<Tensor>(&v);
  if ((tensor != nullptr) != (f.kind == ShardKind::tensor))
    throw UsageError(
        str("[", who, "] field ", f.describe(), " got ", tensor ? "a tensor" : "bytes"));
  if (tensor) return append_tensor(who, to, f, *tensor);
  const auto& text = std::get<std::string>(v);
  if (f.kind == ShardKind::string && !is_utf8(text))
    throw UsageError(str("[", who, "] field ", f.describe(), " got bytes that are not UTF-8"));
  detail::append_le(to, u64(text.size()));
  to += text;
}

[[noreturn]] void cannot_write(const std::string& path, const std::string& why) {
  throw CheckpointError(str("[ShardWriter] ", printable_path(path), ": ", why));
}

}  // namespace

bool ShardField::fixed() const {
  return kind == ShardKind::tensor && std::find(shape.begin(), shape.end(), -1) == shape.end();
}

std::string ShardField::describe() const {
  if (kind != ShardKind::tensor)
    return printable(name) + (kind == ShardKind::bytes ? " bytes" : " string");
  std::string sizes;
  for (const i64 n : shape) sizes += (sizes.empty() ? "" : ", ") + (n < 0 ? "*" : str(n));
  return str(printable(name), " ", dtype_name(dtype), " [", sizes, "]");
}

std::string detail::shard_schema(const std::vector<ShardField>& fields) {
  std::string s;
  for (const ShardField& f : fields) {
    append_le(s, u8(f.kind));
    append_le(s, f.kind == ShardKind::tensor ? u8(f.dtype) : u8{0});
    append_le(s, u8(f.shape.size()));
    append_le(s, u8(f.name.size()));
    for (const i64 n : f.shape) append_le(s, n);
    s += f.name;
  }
  return s;
}

void detail::check_shard_fields(const char* who, const std::vector<ShardField>& fields) {
  if (fields.empty()) throw UsageError(str("[", who, "] needs at least one field"));
  for (size_t i = 0; i < fields.size(); ++i)
    check_field(who, fields[i], {fields.begin(), fields.begin() + i64(i)});
}

void detail::shard_record_bytes(const char* who, const std::vector<ShardField>& fields,
                                const ShardRecord& values, std::string& to) {
  if (values.size() != fields.size())
    throw UsageError(
        str("[", who, "] a record of ", values.size(), " values for ", fields.size(), " fields"));
  to.clear();
  for (size_t i = 0; i < values.size(); ++i) append_value(who, to, fields[i], values[i]);
}

struct ShardWriter::Impl {
  std::string path, partial;
  std::vector<ShardField> fields;
  ShardWriterOptions o;
  std::unique_ptr<DirectoryLock> lock;
  std::unique_ptr<AtomicFile> file;
  std::string pending, record;  // not yet written; the record that is being made
  std::vector<u64> ends;
  std::vector<u32> crcs;
  u32 number = 0, previous = 0, header_crc = 0;
  u64 at = 0, bytes = 0;
  i64 records = 0;
  bool done = false, failed = false;

  ~Impl() {
    file.reset();
    std::error_code ignored;
    if (lock) fs::remove_all(partial, ignored);  // else it is another writer's, or published
  }
  void flush() {
    file->write(pending);
    pending.clear();
  }
  void begin_file() {
    char name[32];
    std::snprintf(name, sizeof name, "/%05u", number);
    file = std::make_unique<AtomicFile>(str(partial, name, detail::kShardEnding));
    const std::string schema = detail::shard_schema(fields);
    pending = detail::kShardMagic;
    for (const u32 v : {detail::kShardVersion, number, previous, u32(schema.size())})
      detail::append_le(pending, v);
    pending += schema;
    header_crc = crc32c(pending.data(), pending.size());
    detail::append_le(pending, header_crc);
    at = pending.size();
    ends.clear();
    crcs.clear();
  }
  void end_file(bool last) {
    const u64 index_at = at;
    std::string index;
    for (const u64 e : ends) detail::append_le(index, e);
    for (const u32 c : crcs) detail::append_le(index, c);
    std::string footer;
    detail::append_le(footer, index_at);
    detail::append_le(footer, u64(ends.size()));
    detail::append_le(footer, u32(last));
    detail::append_le(footer, crc32c(index.data(), index.size()));
    previous = crc32c(footer.data(), footer.size());
    detail::append_le(footer, previous);
    detail::append_le(footer, header_crc);
    pending += index;
    pending += footer;
    flush();
    file->commit();
    file.reset();
    ++number;
  }
  void put() {
    const bool full = at + record.size() > o.max_file_bytes || ends.size() >= kMostRecords;
    if (full && !ends.empty()) {
      end_file(false);
      begin_file();
    }
    pending += record;
    at += record.size();
    ends.push_back(at);
    crcs.push_back(crc32c(record.data(), record.size()));
    bytes += record.size();
    ++records;
    if (pending.size() >= kWritePiece) flush();
  }
  // LOCK goes before the folder gets its name: under that name only shards may lie.
  void publish() {
    fs::remove(partial + "/LOCK");
    if (::rename(partial.c_str(), path.c_str()) != 0)
      cannot_write(path, str("cannot be given its name: ", std::strerror(errno)));
    lock.reset();
  }
};

ShardWriter::ShardWriter(const std::string& path, std::vector<ShardField> fields,
                         const ShardWriterOptions& o)
    : impl_(std::make_unique<Impl>()) {
  Impl& w = *impl_;
  w.path = path;
  while (w.path.size() > 1 && w.path.back() == '/') w.path.pop_back();
  if (w.path.empty()) throw UsageError("[ShardWriter] needs a path");
  detail::check_shard_fields("ShardWriter", fields);
  w.fields = std::move(fields);
  w.o = o;
  std::error_code error;
  if (fs::exists(w.path, error) && !(fs::is_directory(w.path) && fs::is_empty(w.path)))
    throw UsageError(str("[ShardWriter] ", printable_path(w.path),
                         " is there already\n  Try another name, or remove it first"));
  w.partial = w.path + ".partial";
  w.lock = std::make_unique<DirectoryLock>(w.partial);
  for (const auto& entry : fs::directory_iterator(w.partial))  // of a process that was killed
    if (entry.path().filename().string().find(detail::kShardEnding) != std::string::npos)
      fs::remove(entry.path());
  w.begin_file();
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::add(const ShardRecord& values) {
  Impl& w = *impl_;
  if (w.done || w.failed)
    throw UsageError(str("[ShardWriter] ", printable_path(w.path),
                         w.done ? " is finished" : " could not be written: see the first error"));
  detail::shard_record_bytes("ShardWriter", w.fields, values, w.record);
  w.failed = true;
  w.put();
  w.failed = false;
}

void ShardWriter::finish() {
  Impl& w = *impl_;
  if (w.done || w.failed)
    throw UsageError(str("[ShardWriter] ", printable_path(w.path),
                         w.done ? " is finished" : " could not be written: see the first error"));
  w.failed = true;
  w.end_file(true);
  w.publish();
  w.failed = false;
  w.done = true;
}

i64 ShardWriter::records() const { return impl_->records; }
u64 ShardWriter::bytes() const { return impl_->bytes; }

}  // namespace wt::data
