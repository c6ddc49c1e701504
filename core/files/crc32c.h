// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78): checkpoints, record files. Internal.
#pragma once
#include <cstddef>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

// CRC of `bytes` bytes at `data`; pass the previous result as `crc` to go on over several pieces.
// crc32c("123456789") = 0xE3069283. Uses the processor's instruction where there is one.
WT_API u32 crc32c(const void* data, std::size_t bytes, u32 crc = 0);

// As TFRecord files keep it: the CRC of data that holds its own CRC tells nothing
// (tensorflow/core/lib/hash/crc32c.h).
inline u32 masked_crc32c(const void* data, std::size_t bytes) {
  const u32 crc = crc32c(data, bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

namespace detail {
WT_API u32 crc32c_portable(const void* data, std::size_t bytes, u32 crc);  // the tested fallback
}

}  // namespace wt
