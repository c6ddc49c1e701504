// What writer and reader of shards share. Internal.
#pragma once
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/input_file.h"
#include "warptape/data/formats/shard_map.h"
#include "warptape/data/shard.h"

namespace wt::data::detail {

static_assert(std::endian::native == std::endian::little, "shards are copied as they lie");

// Not text, and damaged by any conversion of line ends.
inline constexpr std::string_view kShardMagic{"\x89WTS\r\n\x1a\n", 8};
inline constexpr u32 kShardVersion = 1;
inline constexpr u64 kShardHeader = 24;  // before the schema
inline constexpr u64 kShardFooter = 32;
inline constexpr std::string_view kShardEnding = ".wtshard";

template <class T>
void append_le(std::string& to, T v) {
  to.append(reinterpret_cast<const char*>(&v), sizeof v);
}
template <class T>
T load_le(const char* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

// One file's header, footer and index.
struct ShardFile {
  InputFile file;
  std::vector<ShardField> fields{};
  u32 number = 0, previous = 0, header_crc = 0, footer_crc = 0;
  bool last = false;
  u64 begin = 0, index_at = 0;  // of the records
  std::vector<u64> ends{};
  std::vector<u32> crcs{};
  std::shared_ptr<const ShardMap> map{};  // null: it is read

  u64 begin_of(u64 record) const { return record == 0 ? begin : ends[record - 1]; }
  static ShardFile open(const std::string& path, const ParseLimits& limits);
};

std::string shard_schema(const std::vector<ShardField>& fields);
std::vector<ShardField> parse_shard_schema(std::string_view text, const std::string& path,
                                           u64 offset, const ParseLimits& limits);
// UsageError for fields that a writer, called `who` in messages, does not take.
void check_shard_fields(const char* who, const std::vector<ShardField>& fields);
// A record's bytes in place of what `to` had; the errors of ShardWriter::add().
void shard_record_bytes(const char* who, const std::vector<ShardField>& fields,
                        const ShardRecord& values, std::string& to);
// As Shards::columns().
std::vector<std::pair<std::string, Tensor>> shard_columns(
    const char* who, const std::vector<ShardField>& fields, std::span<const i64> indices,
    const std::vector<std::string>& names, const std::function<ShardRecord(i64)>& get);
// The files of a folder by name, or the one that `path` is. DataError for a folder without any.
std::vector<std::string> shard_files(const std::string& path);
// DataError unless file `i` of a folder continues the one before it.
void check_shard_order(const ShardFile& file, const ShardFile* before, u64 i, u64 files);

// A record's values from its bytes, which lie at byte `offset` of `path`. DataError.
WT_API ShardRecord parse_shard_record(const std::vector<ShardField>& fields, std::string_view bytes,
                                      const std::string& path, u64 offset);

}  // namespace wt::data::detail
