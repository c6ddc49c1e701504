// TFRecord files and the tf.Example records in them, read strictly and written.
//
//   data::TfRecords set("train-*-of-*.tfrecord", {.x = "image", .y = "label"});
//   for (auto& [x, y] : data::Loader{set, {.batch = 64, .shuffle = true}}) ...
//
// A record is u64 length, u32 masked CRC-32C of the length, the bytes, u32 masked CRC-32C of them,
// all little-endian. https://www.tensorflow.org/tutorials/load_data/tfrecord
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "warptape/core/parse_limits.h"
#include "warptape/data/dataset.h"

namespace wt::data {

// How one file is read.
struct TfRecordOptions {
  // A file that ends within a record ends before it: what a writer that was killed, or is still at
  // work, leaves. Wrong check sums stay errors, and so does a packed file that is cut short itself.
  bool allow_partial_tail = false;
  ParseLimits limits = {};  // max_bytes: one record, and what one packed file may become
};

// The records of one file, plain, gzip or zlib (by its content), in order. For one thread.
class WT_API TfRecordReader {
 public:
  // Opens the file. DataError where it cannot be read.
  explicit TfRecordReader(const std::string& path, const TfRecordOptions& o = {});
  ~TfRecordReader();
  TfRecordReader(const TfRecordReader&) = delete;
  TfRecordReader& operator=(const TfRecordReader&) = delete;

  // The next record's bytes; false at the end. Both check sums are checked, that of the length
  // before its bytes are asked for. DataError with path and byte (of a packed file: of its
  // content).
  bool next(std::string& record);
  // Byte where the next record begins, of a packed file in its content.
  u64 offset() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Writes a plain file by the protocol of AtomicFile: without finish() there is none. Throws
// CheckpointError where it cannot be written.
class WT_API TfRecordWriter {
 public:
  // Begins a file that has no name of its own before finish().
  explicit TfRecordWriter(const std::string& path);
  ~TfRecordWriter();
  TfRecordWriter(const TfRecordWriter&) = delete;
  TfRecordWriter& operator=(const TfRecordWriter&) = delete;
  // Appends a record of these bytes with both check sums.
  void add(std::string_view record);
  // Flushes the file to the disk and gives it its name.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A feature: none (monostate), bytes, floats or integers.
using TfFeature =
    std::variant<std::monostate, std::vector<std::string>, std::vector<float>, std::vector<i64>>;
// The features of a tf.Example by name, sorted.
using TfExample = std::vector<std::pair<std::string, TfFeature>>;

// The feature of this name in a sorted example, which owns it; null if there is none.
WT_API const TfFeature* find_feature(const TfExample& example, std::string_view name);
// A tf.Example of a protocol buffer, which lies at byte `offset` of `path`: lists packed or not,
// repeated names (the last counts) and messages in parts as protobuf reads them, unknown fields
// left out. DataError for groups, varints of more than 10 bytes and lengths beyond what there is.
WT_API TfExample parse_tf_example(std::string_view bytes, const std::string& path = "tf.Example",
                                  u64 offset = 0, const ParseLimits& limits = {});
// The protocol buffer of an example, features in the given order, numbers packed.
WT_API std::string tf_example_bytes(const TfExample& example);

// How TfRecords and TfRecordStream read.
struct TfRecordsOptions {
  std::string x = "x", y = "y";     // names of the features that a sample has as x and y
  bool allow_partial_tail = false;  // of each file: see TfRecordOptions
  ParseLimits limits = {};          // max_items: records of a file
};

// The tf.Examples of all files that `pattern` names ('*', '?', '[]' in the last part of the path),
// in the order of their names. Plain files are read by an index of 8 bytes a record, made when they
// are opened (which reads 12 bytes a record); packed files have none and are held inflated, within
// ParseLimits: pack large ones. Copies share these; any thread may read.
class WT_API TfRecords {
 public:
  // Opens and indexes all files. DataError for a pattern that names nothing, and files that
  // TfRecordReader refuses.
  explicit TfRecords(const std::string& pattern, const TfRecordsOptions& o = {});
  // The number of records of all files.
  i64 size() const;
  // The paths of the files, in the order of their records.
  std::vector<std::string> files() const;
  // The bytes of record i. Throws IndexError, and DataError for a damaged record.
  std::string bytes(i64 i) const;
  // Record i as a tf.Example. Throws IndexError, and DataError for a damaged record.
  TfExample get(i64 i) const;
  // Features x and y of these records on the cpu: f32 or i64, [n] where each has one value, else
  // [n, values]. UsageError for features that are missing, bytes, or of another length or type in
  // some record.
  Batch batch(std::span<const i64> indices) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace wt::data
