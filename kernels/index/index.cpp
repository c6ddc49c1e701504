// Indexing by tensors on the cpu.
#include "warptape/kernels/index.h"

#include <cstring>

#include "warptape/kernels/common/rows.h"

namespace wt {
namespace {

// Index tensor k: the row numbers so far are multiplied by its size.
template <class T>
void add_index(const IndexRowsArgs& a, int k) {
  const View& list = a.indices[k];
  enum { List };  // the operand of `walk`
  const Rows<1> walk = rows_along<1>(list.ndim() - 1, {{list}});
  const i64 size = a.size[k];
  i64* rows = a.rows.as<i64>();
  for (i64 row = 0, b = 0; row < walk.count; ++row) {
    const auto index = walk.row(List, list.as<const T>(), row);
    for (i64 i = 0; i < walk.length; ++i, ++b) {
      const i64 value = i64(index[i]);
      const bool good = value >= -size && value < size;
      if (!good && a.mailbox && a.mailbox->raised == 0)
        *a.mailbox = {i32(MailboxCode::index_out_of_range), a.op_id, b, value, size};
      const i64 before = k == 0 ? 0 : rows[b];
      rows[b] = !good || before < 0 ? -1 : before * size + (value < 0 ? value + size : value);
    }
  }
}

void rows_reference(const IndexRowsArgs& a, const Launch&) {
  for (int k = 0; k < a.count; ++k)
    a.indices[k].dtype() == DType::i64 ? add_index<i64>(a, k) : add_index<i32>(a, k);
}

template <class U>
void put_rows(const IndexPutArgs& a) {
  const i64 n = a.rows.numel(), limit = a.table.size(0), width = a.table.size(1);
  if (width == 0) return;  // neither side needs an address then
  const i64* rows = a.rows.as<const i64>();
  const U* values = a.values.as<const U>();
  for (i64 i = 0; i < n; ++i) {
    if (rows[i] < 0 || rows[i] >= limit) continue;
    U* to = a.table.as<U>() + rows[i] * a.table.stride(0);
    if (a.table.stride(1) == 1) {
      std::memcpy(to, values + i * width, size_t(width) * sizeof(U));
      continue;
    }
    for (i64 d = 0; d < width; ++d) to[d * a.table.stride(1)] = values[i * width + d];
  }
}

void put_reference(const IndexPutArgs& a, const Launch&) {
  switch (item_size(a.table.dtype())) {
    case 1:
      return put_rows<u8>(a);
    case 2:
      return put_rows<u16>(a);
    case 4:
      return put_rows<u32>(a);
    default:
      return put_rows<u64>(a);
  }
}

}  // namespace

WT_VARIANTS(cpu, index_rows, IndexRowsArgs, {.name = "reference", .launch = rows_reference});
WT_VARIANTS(cpu, index_put, IndexPutArgs, {.name = "reference", .launch = put_reference});

}  // namespace wt
