#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>

#include "warptape/core/checked.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/crc32c.h"
#include "warptape/core/files/json.h"
#include "warptape/core/suggest.h"
#include "warptape/data/formats/shard_parts.h"

namespace wt::data {
namespace {

// Takes values from a piece of a file, never beyond its end.
class ShardCursor {
 public:
  ShardCursor(std::string_view bytes, const std::string& path, u64 offset)
      : bytes_(bytes), path_(path), offset_(offset) {}
  u64 left() const { return bytes_.size() - at_; }
  [[noreturn]] void fail(const std::string& what) const { data_error(path_, offset_ + at_, what); }
  std::string_view take(u64 n, std::string_view what) {
    if (n > left()) fail(str(what, " needs ", n, " bytes, ", left(), " are left"));
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  // A field's text is made for the error alone: this runs for every record.
  std::string_view take(u64 n, const ShardField& f) {
    if (n > left()) return take(n, std::string_view(f.describe()));
    return take(n, std::string_view());
  }
  template <class T>
  T number(std::string_view what) {
    return detail::load_le<T>(take(sizeof(T), what).data());
  }

 private:
  std::string_view bytes_;
  const std::string& path_;
  u64 offset_, at_ = 0;
};

ShardField parse_field(ShardCursor& c, const std::vector<ShardField>& before) {
  const u8 kind = c.number<u8>("a field"), dtype = c.number<u8>("a field");
  const u8 rank = c.number<u8>("a field"), name = c.number<u8>("a field");
  if (kind > u8(ShardKind::string)) c.fail(str("field of kind ", int(kind), ", expected 0 to 2"));
  if (dtype >= kNumDTypes) c.fail(str("dtype ", int(dtype), ", expected 0 to ", kNumDTypes - 1));
  const bool tensor = kind == u8(ShardKind::tensor);
  if (rank > (tensor ? kMaxDims : 0) || (!tensor && dtype != 0))
    c.fail(str("a field with ", int(rank), " dimensions and dtype ", int(dtype)));
  ShardField f{.kind = ShardKind(kind), .dtype = DType(dtype)};
  if (!tensor) f.dtype = DType::f32;
  i64 extent = item_size(f.dtype);
  for (int d = 0; d < rank; ++d) {
    f.shape.push_back(c.number<i64>("a size"));
    const i64 n = f.shape.back();
    if (n < -1 || (n > 0 && !mul_fits(extent, n, extent)))
      c.fail(str("size ", n, " of a field is not possible"));
  }
  f.name = c.take(name, "a field's name");
  if (name == 0 || !is_utf8(f.name)) c.fail("a field's name is empty or not UTF-8");
  for (const ShardField& b : before)
    if (b.name == f.name) c.fail(str("two fields are called '", printable(f.name), "'"));
  return f;
}

u64 read_shard_header(detail::ShardFile& s, const ParseLimits& limits) {
  const std::string& path = s.file.path();
  char head[detail::kShardHeader];
  s.file.read(0, head, sizeof head, "the header");
  if (std::string_view(head, 8) != detail::kShardMagic) data_error(path, 0, "not a shard");
  const u32 version = detail::load_le<u32>(head + 8), schema = detail::load_le<u32>(head + 20);
  if (version != detail::kShardVersion)
    data_error(path, 8,
               str("shard version ", version, ", this library reads ", detail::kShardVersion));
  s.number = detail::load_le<u32>(head + 12);
  s.previous = detail::load_le<u32>(head + 16);
  if (schema > limits.max_header)
    data_error(path, 20, str("a schema of ", schema, " bytes, at most ", limits.max_header));
  const u64 after = sizeof head + schema;
  if (s.file.size() < after + 4 + detail::kShardFooter)
    data_error(path, s.file.size(),
               str("the schema needs ", schema, " bytes, the file has ", s.file.size(),
                   " in all (truncated download?)"));
  std::string text(schema, '\0');
  s.file.read(sizeof head, text.data(), schema, "the schema");
  s.file.read(after, &s.header_crc, 4, "the header's CRC");
  const u32 crc = crc32c(text.data(), text.size(), crc32c(head, sizeof head));
  if (crc != s.header_crc)
    data_error(path, after, str("the header's CRC is ", crc, ", the file says ", s.header_crc));
  s.fields = detail::parse_shard_schema(text, path, sizeof head, limits);
  return after + 4;
}

void check_record(const detail::ShardFile& s, u64 i, u32 crc) {
  if (crc != s.crcs[i])
    data_error(s.file.path(), s.begin_of(i),
               str("record ", i, " is damaged: its CRC is ", crc, ", the index says ", s.crcs[i]));
}

// A record's bytes, checked: mapped, or read into `to`.
std::string_view read_record(const detail::ShardFile& s, u64 i, const ParseLimits& limits,
                             std::string& to) {
  const u64 begin = s.begin_of(i), n = s.ends[i] - begin;
  if (n > limits.max_bytes)
    data_error(s.file.path(), begin,
               str("record ", i, " has ", n, " bytes, at most ", limits.max_bytes,
                   " (ParseLimits::max_bytes)"));
  std::string_view bytes;
  if (s.map) {
    bytes = s.map->bytes(s.file.path(), begin, n);
  } else {
    to.resize(n);
    s.file.read(begin, to.data(), n, "a record");
    bytes = to;
  }
  check_record(s, i, crc32c(bytes.data(), n));
  return bytes;
}

Tensor parse_tensor(ShardCursor& c, const ShardField& f) {
  Shape shape;
  i64 extent = item_size(f.dtype);
  for (i64 n : f.shape) {
    if (n == -1) {
      const u64 size = c.number<u64>("a size");
      if (size > u64(INT64_MAX)) c.fail(str("field ", f.describe(), " has a size of ", size));
      n = i64(size);
    }
    if (n > 0 && !mul_fits(extent, n, extent))
      c.fail(str("the sizes of field ", f.describe(), " overflow"));
    shape.push_back(n);
  }
  const u64 bytes = u64(numel_of(shape) * item_size(f.dtype));
  const std::string_view content = c.take(bytes, f);
  if (f.dtype == DType::boolean)
    for (const char b : content)
      if (u8(b) > 1)
        c.fail(str("field ", f.describe(), " has the byte ", int(u8(b)), " as a bool"));
  const CategoryScope scope(Category::dataset);
  Tensor t = empty(shape, {.dtype = f.dtype, .device = Device::cpu()});
  if (bytes > 0) std::memcpy(t.impl()->data, content.data(), bytes);
  return t;
}

}  // namespace

std::vector<ShardField> detail::parse_shard_schema(std::string_view text, const std::string& path,
                                                   u64 offset, const ParseLimits& limits) {
  std::vector<ShardField> fields;
  ShardCursor c(text, path, offset);
  while (c.left() > 0) {
    if (fields.size() >= limits.max_items) c.fail("too many fields");
    fields.push_back(parse_field(c, fields));
  }
  if (fields.empty()) data_error(path, offset, "a schema without fields");
  return fields;
}

ShardRecord detail::parse_shard_record(const std::vector<ShardField>& fields,
                                       std::string_view bytes, const std::string& path,
                                       u64 offset) {
  ShardCursor c(bytes, path, offset);
  ShardRecord record;
  for (const ShardField& f : fields) {
    if (f.kind == ShardKind::tensor) {
      record.emplace_back(parse_tensor(c, f));
      continue;
    }
    std::string text(c.take(c.number<u64>("a length"), f));
    if (f.kind == ShardKind::string && !is_utf8(text))
      c.fail(str("field ", f.describe(), " is not UTF-8"));
    record.emplace_back(std::move(text));
  }
  if (c.left() > 0) c.fail(str(c.left(), " bytes are left behind the last field"));
  return record;
}

detail::ShardFile detail::ShardFile::open(const std::string& path, const ParseLimits& limits) {
  ShardFile s{InputFile(path)};
  s.begin = read_shard_header(s, limits);
  char foot[kShardFooter];
  const u64 foot_at = s.file.size() - kShardFooter;
  s.file.read(foot_at, foot, sizeof foot, "the footer");
  s.footer_crc = load_le<u32>(foot + 24);
  if (crc32c(foot, 24) != s.footer_crc)
    data_error(path, foot_at, "the footer is damaged (truncated download?)");
  if (load_le<u32>(foot + 28) != s.header_crc)
    data_error(path, foot_at + 28, "header and footer are of different files");
  s.index_at = load_le<u64>(foot);
  const u64 n = load_le<u64>(foot + 8);
  const u32 last = load_le<u32>(foot + 16), index_crc = load_le<u32>(foot + 20);
  if (last > 1) data_error(path, foot_at + 16, str("the last file's mark is ", last));
  s.last = last == 1;
  if (n > limits.max_items || n > limits.max_bytes / 12)
    data_error(
        path, foot_at + 8,
        str(n, " records, at most ", limits.max_items, " (ParseLimits::max_items, max_bytes)"));
  if (s.index_at < s.begin || s.index_at > foot_at || foot_at - s.index_at != n * 12 ||
      n > foot_at / 12)
    data_error(path, foot_at,
               str("an index of ", n, " records at byte ", s.index_at,
                   " does not end at the footer, byte ", foot_at));
  s.ends.resize(n);
  s.crcs.resize(n);
  s.file.read(s.index_at, s.ends.data(), n * 8, "the index");
  s.file.read(s.index_at + n * 8, s.crcs.data(), n * 4, "the index");
  if (crc32c(s.crcs.data(), n * 4, crc32c(s.ends.data(), n * 8)) != index_crc)
    data_error(path, s.index_at, "the index is damaged: its CRC is not the footer's");
  u64 at = s.begin;
  for (u64 i = 0; i < n; at = s.ends[i++])
    if (s.ends[i] < at || s.ends[i] > s.index_at)
      data_error(
          path, s.index_at + 8 * i,
          str("record ", i, " ends at byte ", s.ends[i], ", outside ", at, " to ", s.index_at));
  if (at != s.index_at) data_error(path, at, "bytes between the last record and the index");
  return s;
}

std::vector<std::string> detail::shard_files(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == kShardEnding) files.push_back(at->path().string());
  if (error) data_error(path, 0, str("the folder cannot be read: ", error.message()));
  std::sort(files.begin(), files.end());
  if (files.empty()) data_error(path, 0, str("a folder without ", kShardEnding, " files"));
  return files;
}

void detail::check_shard_order(const ShardFile& f, const ShardFile* before, u64 i, u64 files) {
  const std::string& path = f.file.path();
  if (f.number != i)
    data_error(path, 12,
               str("this is file ", f.number, " of its pack, file ", i,
                   " was expected here: one is missing or was renamed"));
  if (before && (f.previous != before->footer_crc || f.fields != before->fields))
    data_error(path, 16, str("not of the same pack as ", printable_path(before->file.path())));
  if (f.last != (i + 1 == files))
    data_error(path, f.file.size() - kShardFooter + 16,
               f.last ? "the pack's last file is not the folder's last"
                      : "the pack goes on, but the next file is missing");
}

namespace {

// Maps those files, all of one folder, that its stamp says are whole.
void map_verified(std::vector<detail::ShardFile>& files) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(files[0].file.path()).parent_path();
  const std::vector<detail::StampLine> stamp = detail::read_stamp(folder.empty() ? "." : folder);
  std::map<std::string, const detail::StampLine*> by_name;
  for (const detail::StampLine& l : stamp) by_name[l.name] = &l;
  for (detail::ShardFile& f : files) {
    const auto found = by_name.find(fs::path(f.file.path()).filename().string());
    if (found != by_name.end() && found->second->footer_crc == f.footer_crc)
      f.map = detail::ShardMap::of(f.file.path(), *found->second);
  }
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> detail::shard_columns(
    const char* who, const std::vector<ShardField>& all, std::span<const i64> indices,
    const std::vector<std::string>& names, const std::function<ShardRecord(i64)>& get) {
  std::vector<std::string> known;
  for (const ShardField& f : all) known.push_back(f.name);
  std::vector<size_t> wanted;
  for (const std::string& name : names) {
    const auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end())
      throw UsageError(
          str("[", who, "] no field is called '", printable(name), "'", did_you_mean(name, known)));
    wanted.push_back(size_t(at - known.begin()));
  }
  for (size_t k = 0; names.empty() && k < all.size(); ++k)
    if (all[k].fixed()) wanted.push_back(k);
  std::vector<std::pair<std::string, Tensor>> out;
  for (const size_t k : wanted) {
    if (!all[k].fixed())
      throw UsageError(str("[", who, "] field ", all[k].describe(),
                           " has another size in every record\n  Try get()"));
    Shape shape{i64(indices.size())};
    for (const i64 n : all[k].shape) shape.push_back(n);
    out.emplace_back(all[k].name, empty(shape, {.dtype = all[k].dtype, .device = Device::cpu()}));
  }
  for (size_t row = 0; row < indices.size(); ++row) {
    const ShardRecord record = get(indices[row]);
    for (size_t k = 0; k < wanted.size(); ++k) {
      const Tensor& t = std::get<Tensor>(record[wanted[k]]);
      const size_t n = size_t(t.numel() * item_size(t.dtype()));
      if (n)
        std::memcpy(static_cast<char*>(out[k].second.impl()->data) + row * n, t.impl()->data, n);
    }
  }
  return out;
}

struct Shards::Impl {
  ShardsOptions o;
  std::vector<detail::ShardFile> files;
  std::vector<i64> starts;  // the first record of each file
  i64 size = 0;
  u64 bytes = 0;
  mutable std::atomic<u64> touched{0};  // bytes of mapped files since they were let go

  // The record's bytes of `f`, mapped or in `buffer`.
  std::string_view read(const detail::ShardFile& f, u64 i, std::string& buffer) const {
    if (f.map) {
      // The system may bring 64 KiB around what is touched.
      const u64 n = f.ends[i] - f.begin_of(i) + (u64{128} << 10);
      if (touched.fetch_add(n, std::memory_order_relaxed) + n > kMapped) {
        touched.store(0, std::memory_order_relaxed);
        for (const detail::ShardFile& each : files)
          if (each.map) each.map->let_go();
      }
    }
    return read_record(f, i, o.limits, buffer);
  }
  const detail::ShardFile& find(i64& i) const {
    detail::check_sample("Shards", i, size);
    const auto k = std::upper_bound(starts.begin(), starts.end(), i) - starts.begin() - 1;
    i -= starts[size_t(k)];
    return files[size_t(k)];
  }
};

Shards::Shards(const std::string& path, const ShardsOptions& o) {
  auto s = std::make_shared<Impl>();
  s->o = o;
  const std::vector<std::string> names = detail::shard_files(path);
  const bool folder = names[0] != path;
  s->files.reserve(names.size());
  for (const std::string& name : names) {
    detail::ShardFile f = detail::ShardFile::open(name, o.limits);
    const u64 i = s->files.size();
    if (folder) detail::check_shard_order(f, i ? &s->files.back() : nullptr, i, names.size());
    s->starts.push_back(s->size);
    s->size += i64(f.ends.size());
    s->bytes += f.index_at - f.begin;
    s->files.push_back(std::move(f));
  }
  if (o.map) map_verified(s->files);
  impl_ = std::move(s);
}

i64 Shards::size() const { return impl_->size; }
const std::vector<ShardField>& Shards::fields() const { return impl_->files[0].fields; }
u64 Shards::bytes() const { return impl_->bytes; }
i64 Shards::mapped() const {
  return std::count_if(impl_->files.begin(), impl_->files.end(),
                       [](const detail::ShardFile& f) { return f.map != nullptr; });
}
std::vector<std::string> Shards::files() const {
  std::vector<std::string> names;
  for (const detail::ShardFile& f : impl_->files) names.push_back(f.file.path());
  return names;
}

ShardRecord Shards::get(i64 i) const {
  const detail::ShardFile& f = impl_->find(i);
  std::string buffer;
  const std::string_view bytes = impl_->read(f, u64(i), buffer);
  return detail::parse_shard_record(f.fields, bytes, f.file.path(), f.begin_of(u64(i)));
}

std::vector<std::pair<std::string, Tensor>> Shards::columns(
    std::span<const i64> indices, const std::vector<std::string>& names) const {
  return detail::shard_columns("Shards", fields(), indices, names, [&](i64 i) { return get(i); });
}

Batch Shards::batch(std::span<const i64> indices) const {
  auto c = columns(indices, {impl_->o.x, impl_->o.y});
  return {std::move(c[0].second), std::move(c[1].second)};
}

namespace {

// The CRCs of all records of a file, read in pieces from its first record to its index.
void check_shard_records(const detail::ShardFile& s, const std::function<void(u64)>& progress,
                         std::vector<ShardDamage>& damage) {
  std::string piece(u64{1} << 20, '\0');
  u64 at = s.begin, have = 0, used = 0;  // of the piece
  for (u64 i = 0; i < s.ends.size(); ++i) {
    u32 crc = 0;
    for (u64 left = s.ends[i] - s.begin_of(i); left > 0;) {
      if (used == have) {
        have = std::min<u64>(piece.size(), s.index_at - at);
        s.file.read(at, piece.data(), have, "the records");
        at += have;
        used = 0;
        if (progress) progress(have);
      }
      const u64 n = std::min(left, have - used);
      crc = crc32c(piece.data() + used, n, crc);
      used += n;
      left -= n;
    }
    if (crc != s.crcs[i])
      damage.push_back({s.file.path(), s.begin_of(i), i64(i),
                        str("its CRC is ", crc, ", the index says ", s.crcs[i])});
  }
}

}  // namespace

ShardCheck check_shards(const std::string& path, const std::function<void(u64)>& progress,
                        const ParseLimits& limits) {
  ShardCheck result;
  const std::vector<std::string> names = detail::shard_files(path);
  std::unique_ptr<detail::ShardFile> before;
  for (const std::string& name : names) {
    ++result.files;
    try {
      auto s = std::make_unique<detail::ShardFile>(detail::ShardFile::open(name, limits));
      result.records += i64(s->ends.size());
      result.bytes += s->file.size();
      if (progress) progress(s->file.size() - (s->index_at - s->begin));
      check_shard_records(*s, progress, result.damage);
      if (name != path)
        detail::check_shard_order(*s, before.get(), u64(result.files - 1), names.size());
      before = std::move(s);
    } catch (const DataError& e) {
      result.damage.push_back({name, 0, -1, e.what()});
      before.reset();
    }
  }
  return result;
}

}  // namespace wt::data
