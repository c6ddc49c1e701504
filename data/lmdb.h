// LMDB databases: written with typed records, and read, also those of others, in a process of its
// own. For data that comes as LMDB or that something else reads as such; Shards need no library.
//
//   data::LmdbWriter w("train.lmdb", {{.name = "x", .dtype = DType::u8, .shape = {3, 32, 32}},
//                                     {.name = "y", .dtype = DType::i64}});
//   for (...) w.add({image, label});
//   w.finish();
//   for (auto& [x, y] : data::Loader{data::LmdbRecords{"train.lmdb"}, {.batch = 64}}) ...
//
// A database is a folder with the file data.mdb. Record i has the key "%08d" and, as value, its
// bytes as in a shard (data/shard.h) and the u32 CRC-32C of key and bytes; the key "fields" has u64
// records, the schema as in a shard and its CRC. All little-endian.
//
// LMDB maps what it reads and trusts it: a damaged file crashes it. So a child process reads,
// without a lock (nobody may write meanwhile), with a limit on its memory, and killed when it does
// not answer. All of it needs liblmdb: else NotAvailable.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptape/data/shard.h"

namespace wt::data {

struct LmdbOptions {
  std::string database = {};  // a named one; else the unnamed one
  double timeout = 20;        // seconds that one answer may take
  ParseLimits limits = {};    // max_bytes: one value
};

// Keys and values of any database, as bytes. DataError, with the path, for what is no LMDB file of
// this machine's kind, for pages that lead nowhere, keys that are not in order, a child that died
// (with its signal) or did not answer, databases with duplicate or reversed keys, and values that
// are Python pickles: reading those would be running somebody's code. For one thread.
class WT_API LmdbReader {
 public:
  // `path` is the folder or its data.mdb. DataError if there is no such named database, with the
  // names that there are.
  explicit LmdbReader(const std::string& path, const LmdbOptions& o = {});
  ~LmdbReader();
  LmdbReader(const LmdbReader&) = delete;
  LmdbReader& operator=(const LmdbReader&) = delete;

  i64 size() const;  // entries; of the unnamed database without the named ones
  // The named databases, with their entries.
  const std::vector<std::pair<std::string, i64>>& databases() const;
  // The next entry in the order of the keys; false behind the last one, and then anew.
  bool next(std::string& key, std::string& value);
  std::optional<std::string> get(std::string_view key);

 private:
  friend class LmdbRecords;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct LmdbRecordsOptions {
  std::string x = "x", y = "y";  // the fields of batch()
  double timeout = 20;
  ParseLimits limits = {};
};

// The records of an LmdbWriter, each checked when it is read. A Dataset. Copies share one child
// process; any thread may read, one at a time.
class WT_API LmdbRecords {
 public:
  // DataError also for a database that LmdbWriter has not written.
  explicit LmdbRecords(const std::string& path, const LmdbRecordsOptions& o = {});
  i64 size() const;
  const std::vector<ShardField>& fields() const;
  // As Shards has them.
  ShardRecord get(i64 i) const;
  Batch batch(std::span<const i64> indices) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

struct LmdbWriterOptions {
  u64 map_bytes = u64{64} << 20;  // the map's size to begin with; it doubles whenever it is full
};

// As ShardWriter: all or nothing under `path`, a folder. At most 10^8 records of less than 4 GiB.
class WT_API LmdbWriter {
 public:
  LmdbWriter(const std::string& path, std::vector<ShardField> fields,
             const LmdbWriterOptions& o = {});
  ~LmdbWriter();
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;
  void add(const ShardRecord& record);
  void finish();
  i64 records() const;
  u64 bytes() const;      // of the records
  u64 map_bytes() const;  // the map's size by now

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace wt::data
