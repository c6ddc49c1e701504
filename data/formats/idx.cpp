#include "warptape/data/idx.h"

#include <algorithm>

#include "warptape/core/checked.h"
#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/data/bytes.h"

namespace wt::data {
namespace {

// The shape, checked as far as the header goes.
Shape parse_header(const std::string& path, const std::vector<u8>& bytes) {
  if (bytes.size() < 4)
    data_error(path, 0, str("an IDX file has at least 4 bytes, this has ", bytes.size()));
  const int type = bytes[2], rank = bytes[3];
  if (bytes[0] != 0 || bytes[1] != 0)
    data_error(path, 0,
               str("not an IDX file: it begins with ", int(bytes[0]), " ", int(bytes[1]),
                   ", expected 0 0"));
  if (type != 0x08)
    data_error(path, 2, str("IDX element type ", type, ", only 8 (unsigned byte) is read"));
  if (rank < 1 || rank > kMaxDims)
    data_error(path, 3, str("IDX rank ", rank, ", expected 1 to ", kMaxDims));
  const size_t header = 4 + 4 * size_t(rank);
  if (bytes.size() < header)
    data_error(path, bytes.size(), str("the header of ", header, " bytes is cut short"));
  Shape shape;
  i64 total = 1;
  for (int i = 0; i < rank; ++i) {
    const u8* p = bytes.data() + 4 + 4 * i;
    const u32 n = u32(p[0]) << 24 | u32(p[1]) << 16 | u32(p[2]) << 8 | p[3];
    shape.push_back(n);
    // A length of 0 does not make up for what the others are: strides would overflow.
    if (!mul_fits(total, std::max(i64{1}, i64(n)), total))
      data_error(path, 4 + 4 * u64(i), "the sizes overflow");
  }
  return shape;
}
size_t header_size(const Shape& shape) { return 4 + 4 * size_t(shape.size()); }

// The header says how long the file is: all that can be checked is, before memory is asked for.
void check_size(const Content& file, const Shape& shape) {
  const u64 header = header_size(shape), total = u64(numel_of(shape));
  if (const auto size = file.size(); size && *size - header != total)
    data_error(file.path(), header,
               str("shape ", shape, " needs ", total, " bytes, the file has ", *size - header,
                   *size - header < total ? " (truncated download?)" : ""));
  if (total > file.most() - std::min<u64>(header, file.most()))
    data_error(file.path(), header,
               str("shape ", shape, " needs ", total, " bytes, a gzip file of ", file.file_size(),
                   " bytes may become ", file.most(), " (ParseLimits::max_inflated, max_bytes)"));
}

}  // namespace

Shape idx_shape(const std::string& path) {
  return parse_header(path, read_first_bytes(path, 4 + 4 * kMaxDims));
}

Tensor read_idx(const std::string& path, const ParseLimits& limits) {
  Content file(path, limits);
  std::vector<u8> head;
  file.append(head, 4);
  if (head.size() == 4) file.append(head, 4 * u64(std::min<int>(head[3], kMaxDims)));
  const Shape shape = parse_header(path, head);
  check_size(file, shape);
  const u64 header = header_size(shape), total = u64(numel_of(shape));
  const CategoryScope scope(Category::dataset);
  Tensor t = empty(shape, {.dtype = DType::u8, .device = Device::cpu()});
  u8 beyond = 0;
  const u64 got = total ? file.read(t.mutable_data<u8>(), total) : 0;
  if (got < total)
    data_error(path, header,
               str("shape ", shape, " needs ", total, " bytes, the file has ", got,
                   " (truncated download?)"));
  if (file.read(&beyond, 1))
    data_error(path, header + total, str("shape ", shape, " needs ", total, " bytes, more follow"));
  return t;
}

}  // namespace wt::data
