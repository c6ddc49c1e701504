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

// Which database LmdbReader reads, and within which bounds.
struct LmdbOptions {
  std::string database = {};  // a named one; else the unnamed one
  double timeout = 20;        // seconds that one answer may take
  ParseLimits limits = {};    // max_bytes: one value
};

// Keys and values of any database, as bytes. Throws DataError, with the path, for what is no LMDB
// file of this machine's kind, for pages that lead nowhere, keys that are not in order, a child
// that died (with its signal) or did not answer, databases with duplicate or reversed keys, and
// values that are Python pickles: reading those would be running somebody's code. For one thread.
class WT_API LmdbReader {
 public:
  // Starts the child process; `path` is the folder or its data.mdb. Throws DataError if there is no
  // such named database, with the names that there are, NotAvailable without liblmdb.
  explicit LmdbReader(const std::string& path, const LmdbOptions& o = {});
  ~LmdbReader();
  LmdbReader(const LmdbReader&) = delete;
  LmdbReader& operator=(const LmdbReader&) = delete;

  // The number of entries; of the unnamed database without the named ones.
  i64 size() const;
  // The named databases, with their numbers of entries; the first hundred of them.
  const std::vector<std::pair<std::string, i64>>& databases() const;
  // The next entry in the order of the keys; false behind the last one, and then anew. Throws
  // DataError as the class says.
  bool next(std::string& key, std::string& value);
  // The value of a key; none if it is not there. Throws DataError as next().
  std::optional<std::string> get(std::string_view key);

 private:
  friend class LmdbRecords;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What LmdbRecords makes batches of, and its bounds.
struct LmdbRecordsOptions {
  std::string x = "x", y = "y";  // the fields of batch()
  double timeout = 20;           // seconds that one answer may take
  ParseLimits limits = {};       // max_bytes: one value
};

// The records of an LmdbWriter, each checked when it is read. A Dataset. Copies share one child
// process; any thread may read, one at a time.
class WT_API LmdbRecords {
 public:
  // Opens the folder `path` or its data.mdb and reads the schema. Throws as LmdbReader, DataError
  // also for a database that LmdbWriter has not written.
  explicit LmdbRecords(const std::string& path, const LmdbRecordsOptions& o = {});
  // The number of records.
  i64 size() const;
  // The fields of a record, as LmdbWriter was given them.
  const std::vector<ShardField>& fields() const;
  // Record i, a value a field, tensors on the cpu. Throws IndexError, and DataError for a record
  // that is damaged.
  ShardRecord get(i64 i) const;
  // The fields x and y of these records, [n, shape...], in the file's dtypes. Throws IndexError,
  // DataError, and UsageError for fields that are not there or whose size varies.
  Batch batch(std::span<const i64> indices) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// How LmdbWriter begins.
struct LmdbWriterOptions {
  // Bytes of the map to begin with, 2^16 to 2^46; it doubles whenever it is full.
  u64 map_bytes = u64{64} << 20;
};

// Packs records into a database, as ShardWriter: all or nothing under `path`, a folder. At most
// 10^8 records of less than 4 GiB.
class WT_API LmdbWriter {
 public:
  // Begins the database in "<path>.partial". Throws UsageError for fields that ShardWriter refuses,
  // a `path` that is there (but for an empty folder) and other sizes of the map, CheckpointError if
  // it cannot be written, NotAvailable without liblmdb.
  LmdbWriter(const std::string& path, std::vector<ShardField> fields,
             const LmdbWriterOptions& o = {});
  ~LmdbWriter();
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;
  // One value a field; tensors may lie on any device. Throws ShapeError, DtypeError or UsageError
  // for a value that is not what the field says (nothing is written then) and for records that are
  // too many or too large, CheckpointError if the disk fails, after which the writer takes no more.
  void add(const ShardRecord& record);
  // Writes the schema and gives the folder its name. Throws CheckpointError.
  void finish();
  // The number of records that were added.
  i64 records() const;
  // Bytes of the records that were added.
  u64 bytes() const;
  // The map's size by now, in bytes.
  u64 map_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace wt::data
