// NumPy's .npy format, read strictly and written as NumPy writes it.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "warptape/core/dtype.h"
#include "warptape/core/input_file.h"
#include "warptape/core/parse_limits.h"

namespace wt {

class WT_API NpyFile {
 public:
  // Reads and checks the header: versions 1 to 3; bool, integers of 1 to 8 bytes, f16, f32, f64 in
  // either byte order. Objects (pickles), strings, records and complex numbers are refused.
  // DataError with file and byte offset.
  static NpyFile open(const std::string& path, const ParseLimits& limits = {});

  DType dtype() const noexcept { return dtype_; }
  const std::vector<i64>& shape() const noexcept { return shape_; }
  bool fortran_order() const noexcept { return fortran_; }
  // Element strides of shape() over what read() delivers: column-major for Fortran order.
  std::vector<i64> strides() const;
  u64 bytes() const noexcept { return bytes_; }

  // Copies the bytes() bytes to `dst` in the file's element order and this machine's byte order.
  void read(void* dst) const;

 private:
  explicit NpyFile(const std::string& path) : file_(path) {}
  class HeaderParser;

  InputFile file_;
  DType dtype_ = DType::f32;
  std::vector<i64> shape_;
  bool fortran_ = false, swapped_ = false;
  u64 data_start_ = 0, bytes_ = 0;
};

// Writes the dense, row-major array at `data` by the protocol of AtomicFile. DtypeError for types
// that NumPy lacks (bf16, f8); CheckpointError if the file cannot be written.
WT_API void write_npy(const std::string& path, DType dtype, std::span<const i64> shape,
                      const void* data);

}  // namespace wt
