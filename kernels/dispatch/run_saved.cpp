#include "warptape/kernels/run_saved.h"

#include <algorithm>
#include <iterator>

#include "warptape/core/checked.h"
#include "warptape/kernels/dispatch/run_operands.h"
#include "warptape/kernels/dispatch/run_saved_lists.h"

namespace wt {
namespace detail {

bool sound_axes(std::initializer_list<SavedAxis> axes) {
  i64 count = 1, last = 0;
  for (const SavedAxis& a : axes) {
    i64 step;
    if (a.size < 0 || a.stride < 0 || a.size > kMostSavedElements) return false;
    const i64 size = a.size ? a.size : 1;  // the others must be sound nevertheless
    if (!mul_fits(count, size, count) || count > kMostSavedElements) return false;
    if (!mul_fits(size - 1, a.stride, step) || step > kMostSavedElements - last) return false;
    last += step;
  }
  return true;
}

}  // namespace detail

// --- the contracts: what is saved of each, and what its kernels rely on ---
namespace {

using detail::LaunchFields;
using detail::like;
using detail::sound_axes;

// Contiguous, with so many elements.
bool vector_of(const View& v, i64 n, DType t) {
  return v.dense() && v.numel() == n && v.dtype() == t;
}
// Absent, or [n] of x's dtype.
bool weights_of(const View& v, i64 n, const View& x) {
  return !v || (v.ndim() == 1 && vector_of(v, n, x.dtype()));
}
// Absent, or statistics of x.
bool statistics_of(const View& v, i64 n, const View& x) {
  return !v || vector_of(v, n, x.dtype() == f64 ? f64 : f32);
}
bool is_index(const View& v) { return v && (v.dtype() == DType::i64 || v.dtype() == DType::i32); }
constexpr const char* kShapes = "its operands' shapes or dtypes do not fit";

void saved_fields(MatmulEpilogue& e, LaunchFields& f) {
  f.choice(e.activation, int(std::size(kAllActivations)));
  f(e.gradient);
}

}  // namespace

static void saved_fields(CopyArgs&, LaunchFields&) {}
static const char* saved_operands_wrong(const CopyArgs& a) {
  return a.out && a.in && detail::broadcasts(a.in, a.out) ? nullptr : kShapes;
}

static void saved_fields(FillArgs& a, LaunchFields& f) { f(a.f, a.i); }
static const char* saved_operands_wrong(const FillArgs& a) { return a.out ? nullptr : kShapes; }

static void saved_fields(SequenceArgs& a, LaunchFields& f) {
  f.choice(a.kind, int(SequenceKind::whole) + 1);
  f(a.first, a.step, a.begin, a.end, a.stride);
}
static const char* saved_operands_wrong(const SequenceArgs& a) {
  const bool square = a.out && a.out.ndim() == 2 && a.out.size(0) == a.out.size(1);
  if (!a.out || !a.out.dense() || (!square && a.kind == SequenceKind::identity)) return kShapes;
  constexpr i64 kMost = i64{1} << 62;
  const auto fits = [](i64 v) { return -kMost < v && v < kMost; };
  const bool whole = fits(a.first) && fits(a.step) && a.out.numel() < i64{1} << 31;
  return whole || a.kind != SequenceKind::whole ? nullptr : "a sequence of integers is too long";
}

static void saved_fields(SoftmaxForwardArgs& a, LaunchFields& f) { f(a.axis, a.log); }
static const char* saved_operands_wrong(const SoftmaxForwardArgs& a) {
  return like(a.y, a.x) && a.axis < a.x.ndim() ? nullptr : kShapes;
}

static void saved_fields(ResizeArgs& a, LaunchFields& f) {
  f(a.axis, a.map.in, a.map.out, a.map.align_corners, a.map.scale);
  f.choice(a.map.mode, int(ResizeMode::nearest_exact) + 1);
}
static const char* saved_operands_wrong(const ResizeArgs& a) {
  if (!a.out || !a.in || a.out.dtype() != a.in.dtype() || a.out.ndim() != a.in.ndim() ||
      a.axis >= a.in.ndim() || a.map.in < 1 || !(a.map.scale >= 0))
    return kShapes;
  for (int i = 0; i < a.in.ndim(); ++i)
    if (a.in.size(i) != (i == a.axis ? a.map.in : a.out.size(i))) return kShapes;
  return a.out.size(a.axis) == a.map.out ? nullptr : kShapes;
}

// --- products and convolutions: the lengths of their operands are made of scalars ---

static void saved_fields(MatmulArgs& a, LaunchFields& f) {
  f(a.m, a.n, a.k, a.out_row, a.a_row, a.a_column, a.b_row, a.b_column, a.dtype, a.batch_ndim);
  f(a.accumulate, a.row_sum_accumulate);
  saved_fields(a.epilogue, f);
  for (int d = 0; d < std::min<int>(a.batch_ndim, std::size(a.batch)); ++d)
    f(a.batch[d].size, a.batch[d].out, a.batch[d].a, a.batch[d].b);
}
static const char* saved_fields_wrong(const MatmulArgs& a) {
  if (a.accumulate || a.row_sum_accumulate) return "it adds to what is there";
  if (a.batch_ndim > int(std::size(a.batch))) return "it has too many batch dimensions";
  const auto sound = [&](i64 rows, i64 columns, i64 row, i64 column, i64 MatmulArgs::Batch::*step) {
    detail::SavedAxis at[kMaxDims];
    std::fill(std::begin(at), std::end(at), detail::SavedAxis{1, 0});
    at[0] = {rows, row}, at[1] = {columns, column};
    for (int d = 0; d < a.batch_ndim; ++d) at[d + 2] = {a.batch[d].size, a.batch[d].*step};
    return sound_axes({at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]});
  };
  using Batch = MatmulArgs::Batch;
  const bool unit = (a.a_row == 1 || a.a_column == 1) && (a.b_row == 1 || a.b_column == 1);
  return unit && sound(a.m, a.k, a.a_row, a.a_column, &Batch::a) &&
                 sound(a.k, a.n, a.b_row, a.b_column, &Batch::b) &&
                 sound(a.m, a.n, a.out_row, 1, &Batch::out)
             ? nullptr
             : "its sizes or strides";
}
static const char* saved_operands_wrong(const MatmulArgs& a) {
  if (a.row_sum && a.batch_ndim) return "sums of rows with a batch";
  if (!a.out || !a.a || !a.b) return "an operand is missing";
  const bool needs_aux = a.epilogue.gradient && a.epilogue.activation != Activation::none;
  return needs_aux && !a.epilogue.aux ? "an operand is missing" : nullptr;
}

static void saved_shape(ConvShape& s, LaunchFields& f) {
  f(s.batch, s.in_channels, s.out_channels, s.groups, s.dtype);
  for (int d = 0; d < 3; ++d)
    f(s.in[d], s.out[d], s.kernel[d], s.stride[d], s.padding[d], s.dilation[d]);
}
static void saved_shape(PoolShape& s, LaunchFields& f) {
  f(s.batch, s.channels, s.dtype, s.adaptive, s.count_padding, s.divisor);
  for (int d = 0; d < 3; ++d)
    f(s.in[d], s.out[d], s.kernel[d], s.stride[d], s.padding[d], s.dilation[d]);
}
static void saved_strides(ConvTensor& t, LaunchFields& f) {
  f(t.batch, t.channel, t.at[0], t.at[1], t.at[2]);
}
// Of a tensor of so many images and channels.
static bool sound_tensor(const ConvTensor& t, i64 batch, i64 channels, const i64 (&at)[3]) {
  return sound_axes({{batch, t.batch},
                     {channels, t.channel},
                     {at[0], t.at[0]},
                     {at[1], t.at[1]},
                     {at[2], t.at[2]}});
}
// Of convolutions and pools: positions q * stride - padding + k * dilation can be computed.
template <class S>
static bool sound_windows(const S& s) {
  constexpr i64 kMost = i64{1} << 30;
  const auto within = [](i64 v, i64 least) { return v >= least && v <= kMost; };
  for (int d = 0; d < 3; ++d)
    if (!within(s.in[d], 0) || !within(s.out[d], 0) || !within(s.kernel[d], 1) ||
        !within(s.stride[d], 1) || !within(s.padding[d], -kMost) || !within(s.dilation[d], 1))
      return false;
  return sound_axes({{s.kernel[0], 1}, {s.kernel[1], 1}, {s.kernel[2], 1}});
}
constexpr const char* kWindows = "its sizes, strides or windows";

static void saved_fields(ConvForwardArgs& a, LaunchFields& f) {
  saved_shape(a.shape, f);
  saved_strides(a.y, f), saved_strides(a.x, f), saved_strides(a.w, f);
  saved_fields(a.epilogue, f);
}
static void saved_fields(ConvBackwardInputArgs& a, LaunchFields& f) {
  saved_shape(a.shape, f);
  saved_strides(a.y, f), saved_strides(a.x, f), saved_strides(a.w, f);
}
template <class A>
static const char* convolution_wrong(const A& a) {
  const ConvShape& s = a.shape;
  if (s.groups < 1 || s.in_channels < 0 || s.in_channels % s.groups || s.out_channels % s.groups)
    return kWindows;
  return sound_windows(s) && sound_tensor(a.x, s.batch, s.in_channels, s.in) &&
                 sound_tensor(a.y, s.batch, s.out_channels, s.out) &&
                 sound_tensor(a.w, s.out_channels, s.in_group(), s.kernel)
             ? nullptr
             : kWindows;
}
static const char* saved_fields_wrong(const ConvForwardArgs& a) { return convolution_wrong(a); }
static const char* saved_fields_wrong(const ConvBackwardInputArgs& a) {
  return convolution_wrong(a);
}
static const char* saved_operands_wrong(const ConvForwardArgs& a) {
  const bool needs_aux = a.epilogue.gradient && a.epilogue.activation != Activation::none;
  return a.x.data && a.y.data && a.w.data && (a.epilogue.aux || !needs_aux)
             ? nullptr
             : "an operand is missing";
}
static const char* saved_operands_wrong(const ConvBackwardInputArgs& a) {
  return a.x.data && a.y.data && a.w.data ? nullptr : "an operand is missing";
}

static void saved_fields(MaxPoolForwardArgs& a, LaunchFields& f) {
  saved_shape(a.shape, f);
  saved_strides(a.y, f), saved_strides(a.x, f);
  saved_strides(a.taps, f), saved_strides(a.indices, f);
}
static void saved_fields(AvgPoolForwardArgs& a, LaunchFields& f) {
  saved_shape(a.shape, f);
  saved_strides(a.y, f), saved_strides(a.x, f);
}
// Every window begins before the input's end and has at most half of itself before its beginning:
// then it has something inside.
static bool windows_inside(const PoolShape& s) {
  for (int d = 0; d < 3; ++d) {
    const i64 reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
    if (s.out[d] == 0) continue;
    if (s.in[d] < 1 || s.padding[d] < 0) return false;
    if (s.adaptive ? s.kernel[d] > s.in[d] + 2
                   : 2 * s.padding[d] > reach || reach > s.in[d] + 2 * s.padding[d] ||
                         (s.out[d] - 1) * s.stride[d] >= s.in[d] + s.padding[d])
      return false;
  }
  return true;
}
template <class A>
static const char* pool_wrong(const A& a) {
  const PoolShape& s = a.shape;
  return sound_windows(s) && windows_inside(s) && sound_tensor(a.x, s.batch, s.channels, s.in) &&
                 sound_tensor(a.y, s.batch, s.channels, s.out)
             ? nullptr
             : kWindows;
}
static const char* saved_fields_wrong(const MaxPoolForwardArgs& a) {
  const PoolShape& s = a.shape;
  if (const char* why = pool_wrong(a)) return why;
  return sound_tensor(a.taps, s.batch, s.channels, s.out) &&
                 sound_tensor(a.indices, s.batch, s.channels, s.out)
             ? nullptr
             : kWindows;
}
static const char* saved_fields_wrong(const AvgPoolForwardArgs& a) { return pool_wrong(a); }
static const char* saved_operands_wrong(const MaxPoolForwardArgs& a) {
  return a.x.data && a.y.data ? nullptr : "an operand is missing";
}
static const char* saved_operands_wrong(const AvgPoolForwardArgs& a) {
  return a.x.data && a.y.data ? nullptr : "an operand is missing";
}

// --- norms ---

static void saved_fields(LayerNormForwardArgs& a, LaunchFields& f) { f(a.eps); }
static void saved_fields(RmsNormForwardArgs& a, LaunchFields& f) { f(a.eps); }
static void saved_fields(AddLayerNormForwardArgs& a, LaunchFields& f) { f(a.eps); }
static void saved_fields(AddRmsNormForwardArgs& a, LaunchFields& f) { f(a.eps); }
template <class A>
static const char* rows_wrong(const A& a) {
  if (!like(a.y, a.x) || a.x.ndim() < 1) return kShapes;
  const i64 columns = a.x.size(a.x.ndim() - 1), rows = columns ? a.x.numel() / columns : 0;
  if (columns == 0) return a.stats ? kShapes : nullptr;
  return weights_of(a.weight, columns, a.x) && statistics_of(a.stats, 3 * rows, a.x) ? nullptr
                                                                                     : kShapes;
}
static const char* saved_operands_wrong(const RmsNormForwardArgs& a) { return rows_wrong(a); }
static const char* saved_operands_wrong(const LayerNormForwardArgs& a) {
  if (const char* why = rows_wrong(a)) return why;
  return weights_of(a.bias, a.x.size(a.x.ndim() - 1), a.x) ? nullptr : kShapes;
}

static const char* saved_operands_wrong(const AddRmsNormForwardArgs& a) {
  return like(a.residual, a.x) && like(a.sum, a.x) ? rows_wrong(a) : kShapes;
}
static const char* saved_operands_wrong(const AddLayerNormForwardArgs& a) {
  if (!like(a.residual, a.x) || !like(a.sum, a.x)) return kShapes;
  if (const char* why = rows_wrong(a)) return why;
  return weights_of(a.bias, a.x.size(a.x.ndim() - 1), a.x) ? nullptr : kShapes;
}

static void saved_fields(ChannelStatsArgs& a, LaunchFields& f) { f(a.groups, a.eps); }
static void saved_fields(ChannelNormForwardArgs& a, LaunchFields& f) {
  f(a.groups);
  f.choice(a.activation, int(std::size(kAllActivations)));
}
// How many statistics x has; -1: groups or axes are wrong.
static i64 statistics(const View& x, i64 groups) {
  if (!x || x.ndim() != 3 || groups < 0) return -1;
  if (groups == 0) return x.size(1);
  return x.size(1) % groups == 0 && groups <= x.size(1) ? x.size(0) * groups : -1;
}
static const char* saved_operands_wrong(const ChannelStatsArgs& a) {
  const i64 n = statistics(a.x, a.groups);
  return n >= 0 && a.stats && statistics_of(a.stats, 3 * n, a.x) &&
                 statistics_of(a.variance, n, a.x)
             ? nullptr
             : kShapes;
}
static const char* saved_operands_wrong(const ChannelNormForwardArgs& a) {
  const i64 n = statistics(a.x, a.groups);
  return n >= 0 && like(a.y, a.x) && a.stats && statistics_of(a.stats, 3 * n, a.x) &&
                 weights_of(a.weight, a.x.size(1), a.x) && weights_of(a.bias, a.x.size(1), a.x)
             ? nullptr
             : kShapes;
}

// --- indices; bad ones are reported ---

static void saved_fields(EmbeddingForwardArgs& a, LaunchFields& f) { f(a.zero_index); }
static const char* saved_operands_wrong(const EmbeddingForwardArgs& a) {
  if (!a.out || !a.weight || !is_index(a.indices) || a.weight.ndim() != 2 || !a.out.dense() ||
      a.out.dtype() != a.weight.dtype() || a.out.ndim() != a.indices.ndim() + 1 ||
      a.out.size(a.indices.ndim()) != a.weight.size(1))
    return kShapes;
  for (int i = 0; i < a.indices.ndim(); ++i)
    if (a.out.size(i) != a.indices.size(i)) return kShapes;
  return nullptr;
}

static void saved_fields(GatherArgs& a, LaunchFields& f) { f(a.axis); }
static const char* saved_operands_wrong(const GatherArgs& a) {
  if (!a.out || !a.in || !is_index(a.index) || a.out.dtype() != a.in.dtype() ||
      !same_shape(*a.out.geometry, *a.index.geometry) || a.in.ndim() != a.out.ndim() ||
      a.axis >= std::max(1, a.in.ndim()))
    return kShapes;
  for (int i = 0; i < a.in.ndim(); ++i)
    if (i != a.axis && a.in.size(i) < a.out.size(i)) return kShapes;
  return a.out.numel() == 0 || a.in.numel() > 0 ? nullptr : kShapes;
}

static void saved_fields(IndexRowsArgs& a, LaunchFields& f) {
  f(a.count);
  for (int i = 0; i < std::min(a.count, kMaxDims); ++i) f(a.size[i]);
}
static const char* saved_fields_wrong(const IndexRowsArgs& a) {
  if (a.count > kMaxDims) return "it has too many indices";
  i64 rows = 1;
  for (int i = 0; i < a.count; ++i)
    if (a.size[i] < 0 || !mul_fits(rows, a.size[i], rows)) return "the sizes of its table";
  return nullptr;
}
static const char* saved_operands_wrong(const IndexRowsArgs& a) {
  if (!a.rows || a.rows.dtype() != DType::i64 || !a.rows.dense()) return kShapes;
  for (int i = 0; i < a.count; ++i)
    if (!is_index(a.indices[i]) || !same_shape(*a.indices[i].geometry, *a.rows.geometry))
      return kShapes;
  return nullptr;
}

// --- attention ---

static void saved_fields(AttentionForwardArgs& a, LaunchFields& f) {
  f(a.scores.scale, a.scores.causal);
}
static const char* saved_operands_wrong(const AttentionForwardArgs& a) {
  const View &q = a.scores.q, &k = a.scores.k, &v = a.v, &mask = a.scores.mask;
  if (a.scores.threshold || a.scores.call_base) return "it drops out, with numbers of this process";
  if (!a.out || !q || !k || !v) return "an operand is missing";
  for (const View* x : {&a.out, &q, &k, &v})
    if (x->ndim() != 4 || x->dtype() != q.dtype() || !is_floating(q.dtype())) return kShapes;
  const i64 batch = q.size(0), heads = q.size(1), queries = q.size(2), keys = k.size(2);
  const auto has = [](const View& x, i64 b, i64 h, i64 n) {
    return x.size(0) == b && x.size(1) == h && x.size(2) == n;
  };
  const i64 shared = k.size(1);
  if (shared < 1 || heads % shared || !has(k, batch, shared, keys) ||
      !has(v, batch, shared, keys) || !has(a.out, batch, heads, queries) ||
      k.size(3) != q.size(3) || a.out.size(3) != v.size(3))
    return kShapes;
  if (mask && (mask.ndim() != 4 || !has(mask, batch, heads, queries) || mask.size(3) != keys ||
               (mask.dtype() != DType::boolean && mask.dtype() != q.dtype())))
    return kShapes;
  return statistics_of(a.lse, batch * heads * queries, q) ? nullptr : kShapes;
}

// --- reductions ---

static void saved_entry(red::Sum& e, LaunchFields& f) { f(e.divide_by, e.accumulate); }
static void saved_entry(red::Extreme& e, LaunchFields& f) { f(e.least); }
static void saved_entry(red::Place& e, LaunchFields& f) { f(e.least); }
static void saved_entry(red::Truth& e, LaunchFields& f) { f(e.all); }
static void saved_entry(red::Moments& e, LaunchFields& f) { f(e.correction, e.root); }
static void saved_entry(red::Norm& e, LaunchFields& f) { f(e.absolute); }
static void saved_entry(red::Product&, LaunchFields&) {}
static void saved_entry(red::LogSumExp&, LaunchFields&) {}

template <class E>
static void saved_fields(ReduceArgs<E>& a, LaunchFields& f) {
  f(a.mask);
  saved_entry(a.f, f);
}
template <class E>
static const char* saved_operands_wrong(const ReduceArgs<E>& a) {
  if (a.accumulates()) return "it adds to what is there";
  if (!a.out || !a.in || a.mask >> a.in.ndim()) return kShapes;
  int at = 0;  // of out's axes, where those of size 1 do not count
  const auto skip_ones = [&] {
    while (at < a.out.ndim() && a.out.size(at) == 1) ++at;
  };
  for (int i = 0; i < a.in.ndim(); ++i) {
    if (a.mask >> i & 1 || a.in.size(i) == 1) continue;
    skip_ones();
    if (at == a.out.ndim() || a.out.size(at++) != a.in.size(i)) return kShapes;
  }
  skip_ones();
  if (at != a.out.ndim()) return kShapes;
  const DType t = a.in.dtype();
  const bool wide = E::kOutput == red::Output::wide && !is_floating(t);
  const DType result = E::kOutput == red::Output::truth           ? DType::boolean
                       : wide || E::kOutput == red::Output::place ? DType::i64
                                                                  : t;
  return a.out.dtype() == result ? nullptr : kShapes;
}

// --- the list ---
namespace detail {

std::unique_ptr<AnyLaunch> any_launch(std::string_view contract, const void* args) {
  static const auto* const all = [] {
    auto* lists = new SavedLists;
    operands::list_operands(*lists);
    add_saved_pointwise(*lists);
    return lists;
  }();
  const auto found = all->by_contract.find(contract);
  return found == all->by_contract.end() ? nullptr : found->second.make(found->second.row, args);
}

bool sound_geometry(const Geometry& g) {
  SavedAxis at[kMaxDims];
  for (int i = 0; i < kMaxDims; ++i)
    at[i] = i < g.ndim ? SavedAxis{g.shape[i], g.strides[i]} : SavedAxis{1, 0};
  return sound_axes({at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]});
}

}  // namespace detail
}  // namespace wt
