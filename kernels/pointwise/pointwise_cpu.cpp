// The rows of elementwise operands that are not dense, and large calls in pieces.
#include "warptape/kernels/pointwise/pointwise_cpu.h"

#include <algorithm>
#include <cstring>

#include "warptape/kernels/copy.h"
#include "warptape/kernels/cpu/half_rows.h"
#include "warptape/kernels/cpu/pieces.h"
#include "warptape/kernels/cpu/stream.h"

namespace wt {
namespace pw {

namespace {

constexpr i64 kChunk = 512;  // elements that are gathered or converted at a time

template <class T>
void gather(void* to, const void* from, i64 step, i64 n) {
  for (i64 i = 0; i < n; ++i) static_cast<T*>(to)[i] = static_cast<const T*>(from)[i * step];
}
void gather(void* to, const void* from, i64 step, i64 n, i64 size) {
  switch (size) {
    case 1:
      return gather<u8>(to, from, step, n);
    case 2:
      return gather<u16>(to, from, step, n);
    case 4:
      return gather<u32>(to, from, step, n);
    default:
      return gather<u64>(to, from, step, n);
  }
}
template <class T>
void scatter(void* to, i64 step, const void* from, i64 n) {
  for (i64 i = 0; i < n; ++i) static_cast<T*>(to)[i * step] = static_cast<const T*>(from)[i];
}
void scatter(void* to, i64 step, const void* from, i64 n, i64 size) {
  switch (size) {
    case 1:
      return scatter<u8>(to, step, from, n);
    case 2:
      return scatter<u16>(to, step, from, n);
    case 4:
      return scatter<u32>(to, step, from, n);
    default:
      return scatter<u64>(to, step, from, n);
  }
}

void widen(void* to, const void* from, DType t, i64 n) {
  auto* out = static_cast<float*>(to);
  if (t == DType::f16)
    wt::detail::convert_row(out, static_cast<const Half*>(from), n);
  else
    wt::detail::convert_row(out, static_cast<const BFloat16*>(from), n);
}
void narrow(void* to, const void* from, DType t, i64 n) {
  const auto* in = static_cast<const float*>(from);
  if (t == DType::f16)
    wt::detail::convert_row(static_cast<Half*>(to), in, n);
  else
    wt::detail::convert_row(static_cast<BFloat16*>(to), in, n);
}

// One row of a call: elements with fixed steps.
class Row {
 public:
  Row(const SpanCall& call, const LoopNest<5>& nest) : call_(call) {
    for (int k = 0; k < 5; ++k) {
      View v = k == 0 ? call.out : k <= call.arity ? call.in[k - 1] : View{};
      Operand& o = operands_[k];
      o.present = bool(v);
      o.data = static_cast<char*>(v.data);
      o.dtype = v ? v.dtype() : is_half(call.dtype) ? DType::f32 : call.dtype;
      o.size = item_size(o.dtype);
      o.step = nest.inner_stride(k);
      o.wide = is_half(o.dtype) ? 4 : o.size;
      o.convert = is_half(o.dtype);
      if (k > 0 && k <= call.arity && !o.present) fill_scalar(k);
      chunked_ |= o.present && (o.convert || (o.step != 1 && (k == 0 || o.step != 0)));
    }
  }
  void run(const i64 (&at)[5], i64 n) {
    for (i64 i = 0; i < n;) {
      const i64 m = chunked_ ? std::min(kChunk, n - i) : n;
      const void* in[4];
      bool advance[4];
      for (int k = 1; k <= call_.arity; ++k) in[k - 1] = load(k, at[k], i, m, advance[k - 1]);
      Operand& o = operands_[0];
      char* const out = o.data + (at[0] + i * o.step) * o.size;
      const bool direct = o.step == 1 && !o.convert;
      call_.span(call_.f, direct ? out : buffer_[0], in, advance, m);
      if (!direct) store(out, m);
      i += m;
    }
  }

 private:
  struct Operand {
    char* data;
    DType dtype;
    i64 size, wide, step;  // wide: bytes an element as the span sees it
    bool present, convert;
  };

  void fill_scalar(int k) {
    Geometry one{};
    one.numel = 1;
    one.dtype = operands_[k].dtype;
    const u64 bits = wt::detail::fill_bits({{nullptr, &one}, call_.scalar, call_.scalar_int});
    std::memcpy(buffer_[k], &bits, size_t(operands_[k].size));
    repeat(buffer_[k], operands_[k].size);
  }
  // One element becomes a block of it.
  static void repeat(void* p, i64 size) {
    for (i64 have = 1; have < kBlock; have *= 2)
      std::memcpy(static_cast<char*>(p) + have * size, p, size_t(have * size));
  }
  const void* load(int k, i64 at, i64 i, i64 m, bool& advance) {
    Operand& o = operands_[k];
    advance = false;
    if (!o.present) return buffer_[k];
    const char* p = o.data + (at + i * o.step) * o.size;
    if (o.step == 0) {
      if (o.convert)
        widen(buffer_[k], p, o.dtype, 1);
      else
        std::memcpy(buffer_[k], p, size_t(o.size));
      repeat(buffer_[k], o.wide);
      return buffer_[k];
    }
    advance = true;
    if (o.step == 1 && !o.convert) return p;
    if (o.step != 1) {
      void* to = o.convert ? narrow_ : buffer_[k];
      gather(to, p, o.step, m, o.size);
      p = static_cast<const char*>(to);
    }
    if (o.convert) widen(buffer_[k], p, o.dtype, m);
    return buffer_[k];
  }
  void store(char* out, i64 m) {
    Operand& o = operands_[0];
    void* from = buffer_[0];
    if (o.convert) {
      void* to = o.step == 1 ? static_cast<void*>(out) : narrow_;
      narrow(to, from, o.dtype, m);
      from = to;
    }
    if (o.step != 1) scatter(out, o.step, from, m, o.size);
  }

  const SpanCall& call_;
  Operand operands_[5];
  bool chunked_ = false;
  alignas(64) char buffer_[5][kChunk * 8];
  alignas(64) char narrow_[kChunk * 2];
};

}  // namespace

// Elements [begin, begin + n).
static void run_piece(const LargeCall& call, i64 begin, i64 n, [[maybe_unused]] bool stream) {
  const void* in[4] = {call.in[0], call.in[1], call.in[2], call.in[3]};
  for (int k = 0; k < call.arity; ++k)
    if (call.advance[k]) in[k] = static_cast<const char*>(in[k]) + begin * call.sizes[k];
  char* out = static_cast<char*>(call.out) + begin * call.out_size;
  // Straight to the output: what has no vector code, works in place, or is less than a piece.
  const auto direct = [&](i64 m) {
    call.span(call.f, out, in, call.advance, m);
    out += m * call.out_size;
    n -= m;
    for (int k = 0; k < call.arity; ++k)
      if (call.advance[k]) in[k] = static_cast<const char*>(in[k]) + m * call.sizes[k];
  };
#if WT_X86
  bool in_place = false;
  for (int k = 0; k < call.arity; ++k) in_place |= call.in[k] == call.out;
  if (stream && !in_place && cpu_isa() >= kAvx2) {
    const i64 beyond = i64(reinterpret_cast<uintptr_t>(out) % kLine);
    if (beyond) direct(std::min(n, (kLine - beyond) / call.out_size));
    // Several operands are read in turns: short pieces let the stores overlap with them. One is
    // computed with for longer than it is waited for.
    const i64 size = call.arity > 1 ? kShortPiece : kPiece;
    alignas(kLine) char piece[kPiece * 8];
    while (n >= size) {
      char* const to = out;
      out = piece;
      direct(size);
      stream_lines(to, piece, size * call.out_size);
      out = to + size * call.out_size;
    }
    end_stream();
  }
#endif
  direct(n);
}

void outside_domain(const char* contract, DType t) {
  throw InternalError(str("[", contract, "] has no kernel for ", dtype_name(t)));
}

void run_large(const LargeCall& call, i64 n) {
  const bool stream = call.out_size >= 4 && n * call.out_size >= kStreamedBytes;
  in_pieces(n, [&](i64 begin, i64 end) { run_piece(call, begin, end - begin, stream); });
}

void large_of(const void* f, Span span, const View& out, const void* const* in, const bool* advance,
              int arity, Sizes sizes) {
  LargeCall call{f, span, out.data, {}, {}, {}, arity, sizes.out};
  for (int n = 0; n < arity; ++n) {
    call.in[n] = in[n], call.advance[n] = advance[n];
    call.sizes[n] = n == 0 ? sizes.first : sizes.other;
  }
  run_large(call, out.numel());
}
void rows_of(const void* f, Span span, const View& out, const View* in, int arity, DType dtype,
             double scalar, i64 scalar_int) {
  SpanCall call{f, span, out, {}, arity, dtype, scalar, scalar_int};
  for (int n = 0; n < arity; ++n) call.in[n] = in[n];
  run_spans(call);
}

void run_reference(const ReferenceCall& c) {
  View views[5];
  for (int k = 0; k < 5; ++k) views[k] = k > 0 && k <= c.arity && c.in[k - 1] ? c.in[k - 1] : c.out;
  const LoopNest<5> nest = loop_nest(views, LoopOrder::logical);
  ReferenceRow row{c.f, nullptr,      {},       nest.inner_stride(0),
                   {},  nest.inner(), c.scalar, c.scalar_int};
  for (int n = 0; n < c.arity; ++n) row.in_step[n] = nest.inner_stride(n + 1);
  for_each_row(nest, [&](const i64(&at)[5]) {
    const auto element = [&](int k) -> void* {
      return static_cast<char*>(views[k].data) + at[k] * item_size(views[k].dtype());
    };
    row.out = element(0);
    for (int n = 0; n < c.arity; ++n) row.in[n] = c.in[n] ? element(n + 1) : nullptr;
    c.row(row);
  });
}

void run_spans(const SpanCall& call) {
  View views[5];
  for (int k = 0; k < 5; ++k)
    views[k] = k > 0 && k <= call.arity && call.in[k - 1] ? call.in[k - 1] : call.out;
  const LoopNest<5> nest = loop_nest(views, LoopOrder::memory);
  Row row(call, nest);
  for_each_row(nest, [&](const i64(&at)[5]) { row.run(at, nest.inner()); });
}

}  // namespace pw

}  // namespace wt
