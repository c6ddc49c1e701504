// NumPy's .npy format, read strictly and written as NumPy writes it.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/dtype.h"
#include "warptape/core/input_file.h"
#include "warptape/core/parse_limits.h"

namespace wt {

namespace detail {

// What an .npy header says, checked against the limits and the size of what it lies in.
struct NpyHeader {
  DType dtype = DType::f32;
  std::vector<i64> shape{};
  bool fortran = false, swapped = false;
  u64 data_start = 0, bytes = 0;
  // Element strides of the shape over what read_npy_data() delivers.
  std::vector<i64> strides() const;
};

// The bytes of an .npy file, wherever they are: in a file, or in the member of an archive that is
// inflated on the way. They are asked for once and in order.
struct NpyBytes {
  std::string label;  // for errors
  u64 size = 0;
  std::function<void(u64 offset, void* dst, u64 bytes, std::string_view what)> read;
};
NpyHeader read_npy_header(const NpyBytes& file, const ParseLimits& limits);
void read_npy_data(const NpyBytes& file, const NpyHeader& header, void* dst);
// What precedes the elements in a file that write_npy() writes; its errors.
std::string npy_header(DType dtype, std::span<const i64> shape);

}  // namespace detail

class WT_API NpyFile {
 public:
  // Reads and checks the header: versions 1 to 3; bool, integers of 1 to 8 bytes, f16, f32, f64 in
  // either byte order. Objects (pickles), strings, records and complex numbers are refused.
  // DataError with file and byte offset.
  static NpyFile open(const std::string& path, const ParseLimits& limits = {});

  DType dtype() const noexcept { return header_.dtype; }
  const std::vector<i64>& shape() const noexcept { return header_.shape; }
  bool fortran_order() const noexcept { return header_.fortran; }
  // Element strides of shape() over what read() delivers: column-major for Fortran order.
  std::vector<i64> strides() const;
  u64 bytes() const noexcept { return header_.bytes; }

  // Copies the bytes() bytes to `dst` in the file's element order and this machine's byte order.
  void read(void* dst) const;

 private:
  explicit NpyFile(const std::string& path);
  detail::NpyBytes content() const;

  InputFile file_;
  detail::NpyHeader header_;
};

// Writes the dense, row-major array at `data` by the protocol of AtomicFile. DtypeError for types
// that NumPy lacks (bf16, f8); CheckpointError if the file cannot be written.
WT_API void write_npy(const std::string& path, DType dtype, std::span<const i64> shape,
                      const void* data);

}  // namespace wt
