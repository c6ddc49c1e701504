// The safetensors format, read strictly and written strictly: what this reader accepts has exactly
// one meaning (no holes, no overlaps, no duplicate names, nothing after the end). Further keys of a
// tensor's entry and white space behind the header are passed over.
//
// Files written with checksums (checkpoints) carry CRC-32C sums in "__metadata__": "wt.crc32c" over
// the header and "wt.crc32c:<name>" over each tensor. A reader that finds them verifies them; other
// programs see ordinary metadata.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptape/core/dtype.h"
#include "warptape/core/input_file.h"
#include "warptape/core/owned.h"
#include "warptape/core/parse_limits.h"

namespace wt {

// One tensor of a file; its bytes are [begin, end) counted from the end of the header.
struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  std::vector<i64> shape;
  u64 begin = 0, end = 0;

  u64 bytes() const noexcept { return end - begin; }
};

using StringPairs = std::vector<std::pair<std::string, std::string>>;

class WT_API SafetensorsFile {
 public:
  // One that was moved from may be assigned to or destroyed, and nothing else.
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  // Reads and checks the header; no tensor data yet. DataError with file and byte offset if
  // anything is not exactly as the format says or beyond `limits`.
  static SafetensorsFile open(const std::string& path, const ParseLimits& limits = {});

  // In file order.
  const std::vector<TensorEntry>& entries() const noexcept;
  const TensorEntry* find(std::string_view name) const noexcept;  // null if absent
  // Without the checksums; in file order.
  const StringPairs& metadata() const noexcept;
  const std::string* find_metadata(std::string_view key) const noexcept;
  bool has_checksums() const noexcept;
  const std::string& path() const noexcept;

  // Copies the `entry.bytes()` bytes of one of entries() to `dst`. DataError if the checksum
  // differs, if a bool is neither 0 nor 1, or if the bytes read so far would pass
  // ParseLimits::max_bytes.
  void read(const TensorEntry& entry, void* dst);
  // Reads every tensor once into scratch memory and checks what read() checks.
  void verify() const;

 private:
  struct Contents;
  class HeaderParser;

  SafetensorsFile(const std::string& path, const ParseLimits& limits);
  void check_names();
  void check_layout() const;
  void check_checksums(u32 header_crc) const;
  // Passes the tensor's bytes through `dst`, or through scratch memory if it is null.
  void transfer(const TensorEntry& entry, char* dst) const;

  Owned<Contents> in_;
};

// A tensor to write: dense, row-major, on the host.
struct SafetensorsItem {
  std::string name;
  DType dtype = DType::f32;
  std::vector<i64> shape;
  const void* data = nullptr;
};

struct SafetensorsOptions {
  StringPairs metadata{};
  bool checksums = false;           // two passes over the data instead of one
  bool durable = true;              // survives a power loss
  u64 verify_up_to = u64{1} << 30;  // files up to this size are read back before they count
};

// Writes `path` by the protocol of AtomicFile. Tensors are ordered by descending element size, then
// by name, so every one is aligned and equal content gives equal files. UsageError for duplicate
// names or sizes that do not fit; CheckpointError if the file cannot be written.
WT_API void write_safetensors(const std::string& path, std::span<const SafetensorsItem> items,
                              const SafetensorsOptions& options = {});

}  // namespace wt
