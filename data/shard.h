// Shards: typed records in files of bounded size, with a check sum a record. The project's own
// format, for data that is packed once and read often.
//
//   data::ShardWriter w("train.shards", {{.name = "x", .dtype = DType::u8, .shape = {3, 32, 32}},
//                                        {.name = "y", .dtype = DType::i64}});
//   for (...) w.add({image, label});
//   w.finish();
//   for (auto& [x, y] : data::Loader{data::Shards{"train.shards"}, {.batch = 64}}) ...
//
// A pack is a folder of files 00000.wtshard, 00001.wtshard, ... All numbers are little-endian:
//
//   header   8 bytes magic, u32 version (1), u32 number of the file, u32 the previous file's
//            footer CRC (0 in the first), u32 bytes of the schema, the schema, u32 CRC of all that
//   schema   a field: u8 kind, u8 dtype, u8 rank, u8 bytes of the name, i64 sizes[rank], the name
//   records  a field: fixed shapes are the elements alone; ragged ones have a u64 for each size
//            of -1 before them; bytes and strings have a u64 length
//   index    u64 ends[records] (a record begins where the one before it ends), u32 CRCs[records]
//   footer   u64 offset of the index, u64 records, u32 1 in the pack's last file else 0, u32 CRC of
//            the index, u32 CRC of the footer so far, u32 the header's CRC
//
// Every CRC is CRC-32C. A record is checked whenever it is read.
#pragma once
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "warptape/core/parse_limits.h"
#include "warptape/data/dataset.h"

namespace wt::data {

// What a field of every record is: a `tensor`, `bytes`, or a `string` of UTF-8.
enum class ShardKind : u8 { tensor, bytes, string };

// A field that every record of a pack has.
struct ShardField {
  std::string name{};                  // 1 to 255 bytes of UTF-8
  ShardKind kind = ShardKind::tensor;  // tensor, bytes or string
  DType dtype = DType::f32;            // of tensors
  std::vector<i64> shape = {};         // of tensors; -1: another size in every record
  // A tensor without a -1 in its shape: it has the same size in every record.
  bool fixed() const;
  // The field in words: "x u8 [3, 32, 32]", a size of -1 as "*"; "name string".
  std::string describe() const;
  friend bool operator==(const ShardField&, const ShardField&) = default;
};

// A tensor, or the bytes of a bytes or string field (a string is UTF-8).
using ShardValue = std::variant<Tensor, std::string>;
// A value for each field, in the order of the fields.
using ShardRecord = std::vector<ShardValue>;

// How a ShardWriter cuts its files.
struct ShardWriterOptions {
  // Bytes of header and records of a file; a record that is larger has a file of its own. No file
  // has more than 2^20 records.
  u64 max_file_bytes = u64{256} << 20;
};

// Packs records into the folder `path`, which must not exist (or be empty). Everything is written
// into "<path>.partial" and renamed by finish(): under `path` there is all or nothing, however the
// process ends. Without finish() the destructor removes what was written; what a killed process
// left, the next writer of that path replaces. For one thread.
class WT_API ShardWriter {
 public:
  // Begins a pack of these fields. UsageError for no fields, fields without a name or with one name
  // twice, sizes below -1 and more than 8 dimensions, and for a `path` that is there;
  // CheckpointError if it cannot be written or another process is writing it.
  ShardWriter(const std::string& path, std::vector<ShardField> fields,
              const ShardWriterOptions& o = {});
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Appends a record, one value a field; tensors may lie on any device. ShapeError, DtypeError or
  // UsageError with the field's name for a value that is not what the field says (nothing is
  // written then); CheckpointError if the disk fails, after which the writer takes no more
  // (UsageError, as after finish()).
  void add(const ShardRecord& record);
  // Flushes, marks the last file and gives the folder its name. CheckpointError if the disk fails;
  // UsageError the second time.
  void finish();
  // Records added so far.
  i64 records() const;
  // Bytes of the records added so far, without headers and indices.
  u64 bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// How a pack is read.
struct ShardsOptions {
  std::string x = "x", y = "y";  // names of the fields that batch() gives as x and y
  ParseLimits limits = {};       // max_items: records of one file; max_bytes: one record, one index
  bool map = true;  // map the files that verify_shards() found whole; false: read them all
};

// The records of a pack's folder, or of one of its files. Headers and indices are read and checked
// when it is opened, records when they are asked for, with pread into memory of their own: what is
// held is 12 bytes a record and a descriptor a file. Copies share these; any thread may read.
//
// Files that have not changed since verify_shards() found them whole are mapped instead, and at
// most kMapped bytes of them are held at a time. Records are checked all the same; a file that is
// found changed meanwhile is a DataError. Who cuts a mapped file short in the instant in which a
// record is being copied ends the process by SIGBUS: replace packs by renaming, or set map = false.
class WT_API Shards {
 public:
  // Opens the folder, or one file. DataError with file and byte for what is damaged, missing, of
  // another pack or not finished.
  explicit Shards(const std::string& path, const ShardsOptions& o = {});

  // The number of records of all files.
  i64 size() const;
  // The fields of every record, in their order.
  const std::vector<ShardField>& fields() const;
  // The paths of the pack's files, in its order.
  std::vector<std::string> files() const;
  // Bytes of the records of all files.
  u64 bytes() const;
  // How many of the files are mapped.
  i64 mapped() const;
  // Bytes of mapped files that are held at a time: 32 MiB.
  static constexpr u64 kMapped = u64{32} << 20;

  // Record i of the pack, its tensors on the cpu. Throws IndexError, and DataError for a record
  // that is damaged.
  ShardRecord get(i64 i) const;
  // Fields ShardsOptions::x and y of these records, [n, shape...] on the cpu, in the file's dtypes.
  // Throws IndexError, DataError, and UsageError for fields that are not there or whose size
  // varies.
  Batch batch(std::span<const i64> indices) const;
  // Any fields of these records by name, [n, shape...] on the cpu; all that have a fixed shape if
  // none is named. Throws as batch().
  std::vector<std::pair<std::string, Tensor>> columns(
      std::span<const i64> indices, const std::vector<std::string>& names = {}) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// What is wrong with a pack, and where.
struct ShardDamage {
  std::string file;  // path of the damaged file
  u64 offset = 0;    // byte where the damaged record begins; 0 without one: `what` has the byte
  i64 record = -1;   // of the file; -1: header, index or footer
  std::string what;  // the error in words
};
// What check_shards() and verify_shards() found.
struct ShardCheck {
  i64 files = 0, records = 0;  // `files` looked at, and `records` of those that could be opened
  u64 bytes = 0;               // of the files that could be opened
  std::vector<ShardDamage> damage;  // empty: all is whole
  // Of verify_shards(): the `stamp`'s path, or why there is none (`no_stamp`).
  std::string stamp{}, no_stamp{};
};
// Reads every byte of a pack's folder, or one file, and lists all that is damaged; `progress` is
// told how many more bytes were read and may throw to end it. Holds one index and 1 MiB. Throws
// DataError for a folder without shards.
WT_API ShardCheck check_shards(const std::string& path,
                               const std::function<void(u64)>& progress = {},
                               const ParseLimits& limits = {});
// Checks as check_shards(), and where nothing is damaged leaves a stamp, the file VERIFIED in the
// folder: name, size, inode, times and footer's CRC of each file. Shards maps what it still fits.
// Damage takes a stamp away. That none could be written is no error.
WT_API ShardCheck verify_shards(const std::string& path,
                                const std::function<void(u64)>& progress = {},
                                const ParseLimits& limits = {});

}  // namespace wt::data
