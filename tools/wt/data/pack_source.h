// Data sets as typed records, for wt data pack.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/data/shard.h"

namespace wt::tools {

struct PackOptions {
  std::string split = "train";  // of folders that have both: "train", "test" or "all"
  i64 block = 1024;             // tokens of a record
  bool raw = false;             // TFRecord: a field "record" of bytes; LMDB: key and value
  std::string database{};       // of LMDB, with `raw`: a named one
};

struct PackSource {
  std::string what;  // "IDX", "folder of images", ...
  std::vector<data::ShardField> fields{};
  i64 records = 0;
  u64 bytes = 0;                                   // of all records, about: for the progress
  std::function<data::ShardRecord(i64)> record{};  // i in [0, records)
};

// What becomes of a source:
//   IDX             x u8 [1, H, W] (or as the file has it), y i64 where there are labels
//   CIFAR           x u8 [3, 32, 32], y i64; of CIFAR-100 coarse i64 as well
//   images          image bytes as the file has them, y i64 (the sub-folder's number), name string
//   npz, npy        a field an array, along the first axis
//   tokens          tokens i32 [*], a block a record; the last one may be shorter
//   text            text string, a line a record
//   TFRecord        a field a feature of its tf.Examples: a number, [n], [*] where lengths differ,
//                   or bytes; with `raw` record bytes
//   shards          as they are
//   LMDB            what LmdbWriter has written; with `raw` key bytes, value bytes of any
// DataError for what cannot be read, UsageError for what cannot be packed.
PackSource open_source(const std::string& path, const PackOptions& o);

}  // namespace wt::tools
