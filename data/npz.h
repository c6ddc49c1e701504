// NumPy's arrays as tensors: .npy files, and .npz archives of them.
//
//   Tensor u = data::read_npy("u.npy");
//   data::NpzFile file("train.npz");          // np.savez or np.savez_compressed
//   data::TensorDataset set{file.read("x"), file.read("y")};
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/input_file.h"
#include "warptape/core/owned.h"
#include "warptape/core/parse_limits.h"
#include "warptape/core/tensor.h"

namespace wt::data {

// The array of a .npy file as a cpu tensor of its dtype and shape; one in Fortran order is a
// permuted view. Throws DataError with path and byte offset (core/npy.h says what is read), also
// for more than 8 dimensions.
WT_API Tensor read_npy(const std::string& path, const ParseLimits& limits = {});
// Writes a tensor into a .npy file, whole or not at all, in C order; waits for the device. Throws
// DtypeError for types that NumPy lacks (bf16, f8), CheckpointError if the file cannot be written.
WT_API void write_npy(const std::string& path, const Tensor& t);

// A zip archive of .npy files, stored or deflated. Only what the central directory lists is looked
// at, and it must fill the file: encryption, archives in parts, members that overlap, bytes
// between them, a comment that hides something and declared sizes that deflate cannot reach or that
// ParseLimits::most_inflated() does not allow are refused. A member's name is never used as a path.
class WT_API NpzFile {
 public:
  // Opens the archive and reads its directory. Throws DataError with path and byte offset.
  explicit NpzFile(const std::string& path, const ParseLimits& limits = {});
  ~NpzFile();
  // One that was moved from may be assigned to or destroyed, and nothing else.
  NpzFile(NpzFile&&) noexcept;
  NpzFile& operator=(NpzFile&&) noexcept;

  // The arrays' names without ".npy", in the archive's order.
  const std::vector<std::string>& names() const;
  // Whether an array has this name, without ".npy".
  bool contains(const std::string& name) const;
  // One array as a cpu tensor, checked against its CRC-32. Throws UsageError for a name that is not
  // there (with the near one), DataError for damaged content, NotAvailable for a deflated member in
  // a build without zlib.
  Tensor read(const std::string& name) const;

 private:
  struct Member;
  struct Directory;
  class Stream;

  void read_directory();
  Member parse_entry(const std::vector<u8>& directory, u64& at, u64 base) const;
  void sort_names();
  i64 find(const std::string& name) const;
  void check_layout(u64 directory) const;
  bool is_descriptor(const Member& m, u64 at, u64 bytes) const;
  u64 content_start(const Member& m) const;

  InputFile file_;
  ParseLimits limits_;
  Owned<Directory> in_;
};

// Writes arrays by name into an archive of stored members, as np.savez writes them. Names are
// letters, digits, '_', '-' and '.' (UsageError, also for one name twice). Errors are
// write_npy()'s, and UsageError for an archive of 4 GiB and more.
WT_API void write_npz(const std::string& path,
                      const std::vector<std::pair<std::string, Tensor>>& arrays);

}  // namespace wt::data
