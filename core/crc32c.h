// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78): checkpoints, record files. Internal.
#pragma once
#include <cstddef>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

// CRC of `bytes` bytes at `data`; pass the previous result as `crc` to go on over several pieces.
// crc32c("123456789") = 0xE3069283. Uses the processor's instruction where there is one.
WT_API u32 crc32c(const void* data, std::size_t bytes, u32 crc = 0);

namespace detail {
WT_API u32 crc32c_portable(const void* data, std::size_t bytes, u32 crc);  // the tested fallback
}

}  // namespace wt
