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

struct TfRecordOptions {
  // A plain file that ends within a record ends before it: what a writer that was killed, or is
  // still at work, leaves. Wrong check sums stay errors.
  bool allow_partial_tail = false;
  ParseLimits limits = {};  // max_bytes: one record, and what one packed file may become
};

// The records of one file, plain, gzip or zlib (by its content), in order. For one thread.
class WT_API TfRecordReader {
 public:
  explicit TfRecordReader(const std::string& path, const TfRecordOptions& o = {});
  ~TfRecordReader();
  TfRecordReader(const TfRecordReader&) = delete;
  TfRecordReader& operator=(const TfRecordReader&) = delete;

  // False at the end. Both check sums are checked, that of the length before its bytes are asked
  // for. DataError with path and byte (of a packed file: of its content).
  bool next(std::string& record);
  u64 offset() const;  // of the next record

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Writes a plain file by the protocol of AtomicFile: without finish() there is none.
// CheckpointError.
class WT_API TfRecordWriter {
 public:
  explicit TfRecordWriter(const std::string& path);
  ~TfRecordWriter();
  TfRecordWriter(const TfRecordWriter&) = delete;
  TfRecordWriter& operator=(const TfRecordWriter&) = delete;
  void add(std::string_view record);
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A feature: none (monostate), bytes, floats or integers.
using TfFeature =
    std::variant<std::monostate, std::vector<std::string>, std::vector<float>, std::vector<i64>>;
// By name, sorted.
using TfExample = std::vector<std::pair<std::string, TfFeature>>;

// Null if there is none of this name.
WT_API const TfFeature* find_feature(const TfExample& example, std::string_view name);
// Reads the protocol buffer at byte `offset` of `path`: lists packed or not, repeated names (the
// last counts) and messages in parts as protobuf reads them, unknown fields left out. DataError for
// groups, varints of more than 10 bytes and lengths beyond what there is.
WT_API TfExample parse_tf_example(std::string_view bytes, const std::string& path = "tf.Example",
                                  u64 offset = 0, const ParseLimits& limits = {});
WT_API std::string tf_example_bytes(const TfExample& example);

struct TfRecordsOptions {
  std::string x = "x", y = "y";  // the features of batch()
  bool allow_partial_tail = false;
  ParseLimits limits = {};  // max_items: records of a file
};

// The tf.Examples of all files that `pattern` names ('*', '?', '[]' in the last part of the path),
// in the order of their names. Plain files are read by an index of 8 bytes a record, made when they
// are opened (which reads 12 bytes a record); packed files have none and are held inflated, within
// ParseLimits: pack large ones. Copies share these; any thread may read.
class WT_API TfRecords {
 public:
  // DataError for a pattern that names nothing, and files that TfRecordReader refuses.
  explicit TfRecords(const std::string& pattern, const TfRecordsOptions& o = {});
  i64 size() const;
  std::vector<std::string> files() const;
  // Throw IndexError, and DataError for a damaged record.
  std::string bytes(i64 i) const;
  TfExample get(i64 i) const;
  // Features x and y of these records: f32 or i64, [n] where each has one value, else [n, values].
  // UsageError for features that are missing, bytes, or of another length or type in some record.
  Batch batch(std::span<const i64> indices) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace wt::data
