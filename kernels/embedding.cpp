// Embedding on the cpu.
#include "warptape/kernels/embedding.h"

#include <cstring>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
namespace {

i64 index_at(const View& indices, i64 offset) {
  return indices.dtype() == DType::i64 ? indices.as<const i64>()[offset]
                                       : i64(indices.as<const i32>()[offset]);
}

// The row to read: a bad index is reported and reads row 0.
i64 row_of(const EmbeddingForwardArgs& a, i64 position, i64 index) {
  const i64 limit = a.weight.size(0);
  if (index >= 0 && index < limit) return index;
  if (a.mailbox && a.mailbox->raised == 0)
    *a.mailbox = {i32(MailboxCode::token_out_of_range), a.op_id, position, index, limit};
  return 0;
}

// Rows<2> of a [..., D] tensor and its indices.
Rows<2> positions_of(const View& out, const View& indices) {
  return rows_along<2>(out.ndim() - 1, {{out}, {indices, false}});
}

template <class T>
void copy_elements(T* out, const T* row, i64 step, i64 n) {
  for (i64 d = 0; d < n; ++d) out[d] = row[d * step];
}

void forward_reference(const EmbeddingForwardArgs& a, const Launch&) {
  const auto rows = positions_of(a.out, a.indices);
  if (a.weight.size(0) == 0) return;  // nothing to stand in for a bad index
  const i64 item = item_size(a.weight.dtype()), step = a.weight.stride(1);
  for (i64 i = 0; i < rows.count; ++i) {
    const i64 index = index_at(a.indices, rows.start(1, i));
    char* out = a.out.as<char>() + rows.start(0, i) * item;
    const i64 row = row_of(a, i, index);
    const char* from = a.weight.as<const char>() + row * a.weight.stride(0) * item;
    if (row == a.zero_index && row == index) {
      std::memset(out, 0, size_t(rows.length * item));
      continue;
    }
    if (step == 1) {
      std::memcpy(out, from, size_t(rows.length * item));
      continue;
    }
    switch (item) {
      case 1:
        copy_elements((u8*)out, (const u8*)from, step, rows.length);
        break;
      case 2:
        copy_elements((u16*)out, (const u16*)from, step, rows.length);
        break;
      case 4:
        copy_elements((u32*)out, (const u32*)from, step, rows.length);
        break;
      default:
        copy_elements((u64*)out, (const u64*)from, step, rows.length);
        break;
    }
  }
}

// First where the positions of each row end, then the positions in row order, then one row's sum.
i64 backward_workspace(const EmbeddingBackwardArgs& a) {
  return i64(sizeof(i64)) * (a.gweight.size(0) + 1 + a.indices.numel() + a.gweight.size(1));
}

// Sorts the positions by index (stable), then adds each table row's positions in order.
void backward_reference(const EmbeddingBackwardArgs& a, const Launch& l) {
  const auto rows = positions_of(a.gout, a.indices);
  const i64 limit = a.gweight.size(0), width = a.gweight.size(1);
  i64* next = static_cast<i64*>(l.workspace);
  i64* sorted = next + limit + 1;
  const auto valid = [&](i64 v) { return v >= 0 && v < limit && v != a.skip_index; };
  for (i64 v = 0; v <= limit; ++v) next[v] = 0;
  for (i64 i = 0; i < rows.count; ++i)
    if (const i64 v = index_at(a.indices, rows.start(1, i)); valid(v)) ++next[v + 1];
  for (i64 v = 0; v < limit; ++v) next[v + 1] += next[v];
  for (i64 i = 0; i < rows.count; ++i)
    if (const i64 v = index_at(a.indices, rows.start(1, i)); valid(v)) sorted[next[v]++] = i;

  dispatch_floating(a.gweight.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    A* sum = reinterpret_cast<A*>(sorted + rows.count);
    for (i64 v = 0; v < limit; ++v) {
      T* gw = a.gweight.as<T>() + v * width;
      for (i64 d = 0; d < width; ++d) sum[d] = a.accumulate ? A(gw[d]) : A(0);
      for (i64 k = v == 0 ? 0 : next[v - 1]; k < next[v]; ++k) {
        const T* g = a.gout.as<const T>() + rows.start(0, sorted[k]);
        for (i64 d = 0; d < width; ++d) sum[d] += A(g[d * rows.step[0]]);
      }
      for (i64 d = 0; d < width; ++d) gw[d] = T(sum[d]);
    }
  });
}

const char* direct_why_not(const EmbeddingBackwardArgs& a) {
  return is_half(a.gweight.dtype()) ? "16-bit sums need a wider accumulator" : nullptr;
}

template <class T>
void add_row(T* sum, const T* row, i64 step, i64 n) {
  for (i64 d = 0; d < n; ++d) sum[d] += row[d * step];
}
#if WT_X86
WT_TARGET_AVX2 void add_row_avx2(float* sum, const float* row, i64 n) {
  const i64 whole = n & ~7ll, rest = n & 7;
  for (i64 d = 0; d < whole; d += 8) store8(sum + d, load8(sum + d) + load8(row + d));
  if (rest)
    store_part8(sum + whole, load_part8(sum + whole, rest, 0) + load_part8(row + whole, rest, 0),
                rest);
}
#endif
void add_row(float* sum, const float* row, i64 step, i64 n) {
#if WT_X86
  if (step == 1 && cpu_isa() >= kAvx2) return add_row_avx2(sum, row, n);
#endif
  add_row<float>(sum, row, step, n);
}

// Adds every position to its row at once: the same order for each row, no sorting.
void backward_direct(const EmbeddingBackwardArgs& a, const Launch&) {
  const auto rows = positions_of(a.gout, a.indices);
  const i64 limit = a.gweight.size(0), width = a.gweight.size(1), step = rows.step[0];
  if (!a.accumulate && a.gweight.numel() > 0)
    std::memset(a.gweight.data, 0, size_t(a.gweight.bytes()));
  dispatch_floating(a.gweight.dtype(), [&]<class T>() {
    if constexpr (sizeof(T) >= 4)
      for (i64 i = 0; i < rows.count; ++i) {
        const i64 v = index_at(a.indices, rows.start(1, i));
        if (v < 0 || v >= limit || v == a.skip_index) continue;
        add_row(a.gweight.as<T>() + v * width, a.gout.as<T>() + rows.start(0, i), step, width);
      }
  });
}

}  // namespace

WT_VARIANTS(cpu, embedding_forward, EmbeddingForwardArgs,
            {.name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, embedding_backward, EmbeddingBackwardArgs,
            {.name = "direct", .rank = 20, .why_not = direct_why_not, .launch = backward_direct},
            {.name = "reference",
             .rank = 10,
             .workspace = backward_workspace,
             .launch = backward_reference});

}  // namespace wt
