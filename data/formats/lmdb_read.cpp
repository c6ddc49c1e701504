#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <utility>

#include "warptape/core/files/crc32c.h"
#include "warptape/data/formats/lmdb_child.h"
#include "warptape/data/formats/lmdb_parts.h"
#include "warptape/data/lmdb.h"

namespace wt::data {
namespace {

using detail::LmdbAsk;

std::string lmdb_file_of(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? path + "/data.mdb" : path;
}

// By the opcodes that such a value begins and ends with (Python's pickletools): protocol 4 and 5
// have a frame, 2 and 3 a first value.
bool is_python_pickle(std::string_view v) {
  if (v.size() < 4 || v[0] != '\x80' || v.back() != '.') return false;
  if (v[1] == 4 || v[1] == 5) return v[2] == '\x95' || v[2] == 'K' || v[2] == 'N';
  return (v[1] == 2 || v[1] == 3) &&
         std::string_view("c}]()KNXUCGJMI\x8a\x88\x89").find(v[2]) != std::string_view::npos;
}

}  // namespace

struct LmdbReader::Impl {
  Impl(const std::string& path, const LmdbOptions& options)
      : o(options), child(lmdb_file_of(path), o.timeout, o.limits.max_bytes) {
    std::string key, value;
    const bool there = child.ask(LmdbAsk::open, o.database, key, value);
    if (there && value.size() == sizeof entries)
      std::memcpy(&entries, value.data(), sizeof entries);
    if (there) list_databases();
    if (there && o.database.empty()) entries -= std::min(entries, u64(databases.size()));
    if (!there) no_database();
    if (entries > o.limits.max_items * 64)
      data_error(child.file(), 0,
                 str(entries, " entries, at most ", o.limits.max_items * 64,
                     " (64 times ParseLimits::max_items)"));
  }
  void list_databases() {
    std::string key, value;
    while (databases.size() < 100 && child.ask(LmdbAsk::databases, "", key, value)) {
      u64 n = 0;
      if (value.size() == sizeof n) std::memcpy(&n, value.data(), sizeof n);
      databases.emplace_back(key, i64(n));
    }
  }
  [[noreturn]] void no_database() {
    std::string names;
    try {
      LmdbOptions plain = o;
      plain.database.clear();
      const LmdbReader all(child.file(), plain);
      for (const auto& [name, n] : all.databases())
        names += (names.empty() ? "" : ", ") + printable(name);
    } catch (const DataError&) {}
    data_error(child.file(), 0,
               str("has no database '", printable(o.database), "'; it has ",
                   names.empty() ? "none with a name" : names));
  }
  // Keys are in order and as many as the database says, or pages lead in a circle.
  void check_order(const std::string& key) {
    if (seen > 0 && !(last < key))
      data_error(child.file(), 0,
                 str("its keys are not in order: '", printable(key), "' comes after '",
                     printable(last), "'"));
    last = key;
  }
  bool is_database(const std::string& key) const {
    return o.database.empty() && std::any_of(databases.begin(), databases.end(),
                                             [&](const auto& d) { return d.first == key; });
  }
  void refuse_pickle(const std::string& key, const std::string& value) const {
    if (is_python_pickle(value))
      data_error(child.file(), 0,
                 str("the value of '", printable(key), "' is a Python pickle: reading pickled ",
                     "values is code execution, they are not read\n  Try writing them anew as ",
                     "plain arrays, with the program they are of"));
  }

  LmdbOptions o;
  detail::LmdbChild child;
  u64 entries = 0, seen = 0;
  bool inside = false;  // of a pass
  std::string last{};
  std::vector<std::pair<std::string, i64>> databases{};
};

LmdbReader::LmdbReader(const std::string& path, const LmdbOptions& o)
    : impl_(std::make_unique<Impl>(path, o)) {}
LmdbReader::~LmdbReader() = default;
i64 LmdbReader::size() const { return i64(impl_->entries); }
const std::vector<std::pair<std::string, i64>>& LmdbReader::databases() const {
  return impl_->databases;
}

bool LmdbReader::next(std::string& key, std::string& value) {
  Impl& r = *impl_;
  for (;;) {
    const bool there =
        r.child.ask(std::exchange(r.inside, true) ? LmdbAsk::next : LmdbAsk::first, "", key, value);
    if (there && r.is_database(key)) continue;
    if (there ? r.seen >= r.entries : r.seen < r.entries)
      data_error(r.child.file(), 0,
                 str("it says that it has ", r.entries, " entries, ", r.seen,
                     there ? " and more" : "", " were found"));
    if (!there) {
      r.inside = false;
      r.seen = 0;
      return false;
    }
    r.check_order(key);
    ++r.seen;
    r.refuse_pickle(key, value);
    return true;
  }
}

std::optional<std::string> LmdbReader::get(std::string_view key) {
  std::string unused, value;
  if (key.empty() || !impl_->child.ask(LmdbAsk::get, key, unused, value)) return std::nullopt;
  impl_->refuse_pickle(std::string(key), value);
  return value;
}

struct LmdbRecords::Impl {
  Impl(const std::string& path, const LmdbRecordsOptions& options)
      : o(options), reader(path, {.timeout = o.timeout, .limits = o.limits}) {
    const std::string text = value(detail::kLmdbFields);
    if (text.size() < 8) data_error(file(), 0, "the schema is cut short");
    n = i64(detail::load_le<u64>(text.data()));
    fields = detail::parse_shard_schema(std::string_view(text).substr(8), file(), 0, o.limits);
    if (n < 0 || n + 1 != reader.size())
      data_error(file(), 0,
                 str("it says that it has ", n, " records and has ", reader.size(),
                     " entries, one of them the schema"));
  }
  const std::string& file() const { return reader.impl_->child.file(); }
  // What lies under a key, checked and without the check sum.
  std::string value(const std::string& key) const {
    const std::lock_guard hold(busy);
    std::string unused, v;
    detail::LmdbChild& child = reader.impl_->child;
    if (!child.ask(LmdbAsk::get, key, unused, v))
      data_error(file(), 0,
                 str("has no entry '", key, "'",
                     key == detail::kLmdbFields ? ": LmdbWriter has not written it; "
                                                  "LmdbReader reads its bytes"
                                                : ""));
    const u32 crc = v.size() < 4 ? 0 : detail::load_le<u32>(v.data() + v.size() - 4);
    if (v.size() < 4 || detail::lmdb_crc(key, std::string_view(v).substr(0, v.size() - 4)) != crc)
      data_error(file(), 0, str("the entry '", key, "' is damaged: its CRC is another"));
    v.resize(v.size() - 4);
    return v;
  }

  LmdbRecordsOptions o;
  LmdbReader reader;
  std::vector<ShardField> fields{};
  i64 n = 0;
  mutable std::mutex busy{};
};

LmdbRecords::LmdbRecords(const std::string& path, const LmdbRecordsOptions& o)
    : impl_(std::make_shared<Impl>(path, o)) {}
i64 LmdbRecords::size() const { return impl_->n; }
const std::vector<ShardField>& LmdbRecords::fields() const { return impl_->fields; }

ShardRecord LmdbRecords::get(i64 i) const {
  detail::check_sample("LmdbRecords", i, impl_->n);
  return detail::parse_shard_record(impl_->fields, impl_->value(detail::lmdb_key(i)), impl_->file(),
                                    0);
}

Batch LmdbRecords::batch(std::span<const i64> indices) const {
  auto c = detail::shard_columns("LmdbRecords", fields(), indices, {impl_->o.x, impl_->o.y},
                                 [&](i64 i) { return get(i); });
  return {std::move(c[0].second), std::move(c[1].second)};
}

}  // namespace wt::data
