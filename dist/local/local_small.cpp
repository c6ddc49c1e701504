#include "warptape/dist/local/local_small.h"

#include <algorithm>
#include <cstring>

#include "warptape/core/tensor_impl.h"
#include "warptape/dist/combine.h"

namespace wt::dist::local {

namespace {

using Kind = Call::Kind;

char* data_of(const Tensor& t) { return static_cast<char*>(t.impl()->data); }
size_t bytes_in(const Tensor& t) { return size_t(t.numel() * item_size(t.dtype())); }

// Rank r's elements into row r; then in pairs, as Exchange::tree_reduce: rank 0 adds rank 1, 2 adds
// 3, ...; 0 adds 2, ... The sum is the first row.
const char* tree_sum(std::span<const Call* const> calls, std::vector<std::byte>& rows) {
  const Call& c = *calls[0];
  const DType t = c.in.dtype();
  const i64 count = c.in.numel();
  const size_t row = size_t(count * item_size(wire_dtype(t))), n = calls.size();
  if (rows.size() < row * n) rows.resize(row * n);
  char* const first = reinterpret_cast<char*>(rows.data());
  for (size_t r = 0; r < n; ++r) widen(t, first + r * row, data_of(calls[r]->in), count);
  for (size_t bit = 1; bit < n; bit <<= 1)
    for (size_t r = 0; r + bit < n; r += 2 * bit) {
      char* const mine = first + r * row;
      combine(c.op, t, mine, mine, mine + bit * row, count);
    }
  return first;
}

void give(const Tensor& to, i64 offset, const Tensor& from) {
  char* const at = data_of(to) + offset;
  if (at != data_of(from) && from.numel()) std::memcpy(at, data_of(from), bytes_in(from));
}

void reduce_for_all(std::span<const Call* const> calls, std::vector<std::byte>& rows) {
  const Call& c = *calls[0];
  const DType t = c.in.dtype();
  const char* const sum = tree_sum(calls, rows);
  const i64 wire = item_size(wire_dtype(t)), count = c.out.numel();
  const bool parts = c.kind == Kind::reduce_scatter;
  for (size_t r = 0; r < calls.size(); ++r) {
    const Tensor& out = calls[r]->out;
    if (parts || r == 0)
      finish(c.op, t, data_of(out), sum + (parts ? i64(r) * count * wire : 0), count,
             int(calls.size()));
    else
      give(out, 0, c.out);
  }
}

}  // namespace

bool is_small(const Call& call) {
  if (call.kind == Kind::barrier) return true;
  return i64(std::max(bytes_in(call.in), bytes_in(call.out))) <= kTreeBytes;
}

void carry_out_small(std::span<const Call* const> calls, std::vector<std::byte>& rows) {
  const Call& c = *calls[0];
  if (c.kind == Kind::barrier) return;
  if (c.kind == Kind::all_reduce || c.kind == Kind::reduce_scatter)
    return reduce_for_all(calls, rows);
  for (size_t r = 0; r < calls.size(); ++r) {
    if (c.kind == Kind::broadcast) {
      give(calls[r]->out, 0, calls[size_t(c.peer)]->in);
      continue;
    }
    for (size_t from = 0; from < calls.size(); ++from)  // all_gather
      give(calls[r]->out, i64(from * bytes_in(calls[from]->in)), calls[from]->in);
  }
}

}  // namespace wt::dist::local
