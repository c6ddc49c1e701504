// What writer and reader of LMDB databases share. Internal.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

#include "warptape/core/files/crc32c.h"
#include "warptape/data/formats/shard_parts.h"

namespace wt::data::detail {

inline constexpr const char* kLmdbFields = "fields";  // behind all numbers
inline constexpr i64 kMostLmdbRecords = 100'000'000;  // of eight digits

inline std::string lmdb_key(i64 i) {
  char key[32];
  std::snprintf(key, sizeof key, "%08lld", static_cast<long long>(i));
  return key;
}
inline u32 lmdb_crc(std::string_view key, std::string_view value) {
  return crc32c(value.data(), value.size(), crc32c(key.data(), key.size()));
}

}  // namespace wt::data::detail
