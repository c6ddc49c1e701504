// Embedding on the cpu.
#include "warptape/kernels/embedding.h"

#include <cstring>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/index/embedding_cpu.h"
#include "warptape/kernels/index/indices.h"

namespace wt {
namespace {

// The row to read: a bad index is reported and reads row 0.
i64 row_of(const EmbeddingForwardArgs& a, i64 position, i64 index) {
  const i64 limit = a.weight.size(0);
  if (index >= 0 && index < limit) return index;
  if (a.mailbox && a.mailbox->raised == 0)
    *a.mailbox = {i32(MailboxCode::token_out_of_range), a.op_id, position, index, limit};
  return 0;
}

template <class T>
void copy_elements(T* out, const T* row, i64 step, i64 n) {
  for (i64 d = 0; d < n; ++d) out[d] = row[d * step];
}

void forward_reference(const EmbeddingForwardArgs& a, const Launch&) {
  enum { Out, Indices };
  const auto rows = rows_along<2>(a.out.ndim() - 1, {{a.out}, {a.indices, false}});
  const IndexReader indices(a.indices);
  if (a.weight.size(0) == 0) return;  // nothing to stand in for a bad index
  const i64 item = item_size(a.weight.dtype()), step = a.weight.stride(1);
  for (i64 i = 0; i < rows.count; ++i) {
    const i64 index = indices(rows.start(Indices, i));
    char* out = a.out.as<char>() + rows.start(Out, i) * item;
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
  if (a.gweight.numel() == 0) return 0;  // a table of no columns has any number of rows
  return i64(sizeof(i64)) * (a.gweight.size(0) + 1 + a.indices.numel() + a.gweight.size(1));
}

// Sorts the positions by index (stable), then adds each table row's positions in order.
void backward_reference(const EmbeddingBackwardArgs& a, const Launch& l) {
  if (a.gweight.numel() == 0) return;
  enum { GOut, Indices };
  const auto rows = rows_along<2>(a.gout.ndim() - 1, {{a.gout}, {a.indices, false}});
  const IndexReader indices(a.indices);
  const i64 limit = a.gweight.size(0), width = a.gweight.size(1);
  i64* next = static_cast<i64*>(l.workspace);
  i64* sorted = next + limit + 1;
  const auto valid = [&](i64 v) { return v >= 0 && v < limit && v != a.skip_index; };
  for (i64 v = 0; v <= limit; ++v) next[v] = 0;
  for (i64 i = 0; i < rows.count; ++i)
    if (const i64 v = indices(rows.start(Indices, i)); valid(v)) ++next[v + 1];
  for (i64 v = 0; v < limit; ++v) next[v + 1] += next[v];
  for (i64 i = 0; i < rows.count; ++i)
    if (const i64 v = indices(rows.start(Indices, i)); valid(v)) sorted[next[v]++] = i;

  dispatch_floating(a.gweight.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    A* sum = reinterpret_cast<A*>(sorted + rows.count);
    for (i64 v = 0; v < limit; ++v) {
      T* gw = a.gweight.as<T>() + v * width;
      for (i64 d = 0; d < width; ++d) sum[d] = a.accumulate ? A(gw[d]) : A(0);
      for (i64 k = v == 0 ? 0 : next[v - 1]; k < next[v]; ++k) {
        const auto g = rows.row(GOut, a.gout.as<const T>(), sorted[k]);
        for (i64 d = 0; d < width; ++d) sum[d] += A(g[d]);
      }
      for (i64 d = 0; d < width; ++d) gw[d] = T(sum[d]);
    }
  });
}

}  // namespace

WT_VARIANTS(cpu, embedding_forward, EmbeddingForwardArgs,
            {.name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, embedding_backward, EmbeddingBackwardArgs,
            {.name = "direct",
             .rank = 20,
             .why_not = embedding_backward_why_not,
             .launch = embedding_backward_direct},
            {.name = "reference",
             .rank = 10,
             .workspace = backward_workspace,
             .launch = backward_reference});

}  // namespace wt
