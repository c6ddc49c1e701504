#include "warptape/core/factories.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "warptape/core/checkpoint_logs.h"
#include "warptape/core/factory.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/numbers/scalar_as.h"
#include "warptape/core/random.h"
#include "warptape/core/slices.h"
#include "warptape/core/thread_object.h"

namespace wt {
namespace {

using detail::dtype_or_default;
using detail::options_of;

DType dtype_of_scalar(Scalar v) {
  return v.kind == Scalar::Kind::boolean   ? DType::boolean
         : v.kind == Scalar::Kind::integer ? DType::i64
                                           : mode.default_dtype;
}

// The user's line and the name of the factory, for allocation errors.
struct FactoryScope {
  explicit FactoryScope(const OpInfo& info, Frame at) : frame(at), before(mode.op) {
    mode.op = &info;
  }
  ~FactoryScope() { mode.op = before; }
  FrameScope frame;
  const OpInfo* before;
};
constexpr OpInfo kEmpty{.name = "empty", .derivative = Derivative::none};
constexpr OpInfo kFactory{.name = "factory", .derivative = Derivative::none};

Tensor finish(Tensor t, const TensorOptions& o, Frame at) {
  t.impl()->frame = intern_frame(at);
  if (mode.slow & kSlowInference) t.impl()->flags |= kInference;
  if (o.requires_grad) t.set_requires_grad(true, at);
  return t;
}

Tensor make_empty(const Shape& shape, DType t, Device d) {
  numel_of(shape);  // new_contiguous() counts on sizes that are not negative
  require_available(d);
  return Tensor(new_contiguous(shape.data(), shape.ndim(), t, d));
}

template <class T>
void store(void* at, i64 i, T v) {
  static_cast<T*>(at)[i] = v;
}

// Writes v as element i of a host array of dtype t.
void store_as(void* at, DType t, i64 i, Scalar v) {
  const i64 n = detail::whole_of(t, v);
  switch (t) {
    case DType::f64:
      return store<double>(at, i, v.f);
    case DType::f32:
      return store<float>(at, i, float(detail::rounded_to(t, v)));
    case DType::f16:
      return store<Half>(at, i, Half(float(detail::rounded_to(t, v))));
    case DType::bf16:
      return store<BFloat16>(at, i, BFloat16(float(detail::rounded_to(t, v))));
    case DType::i64:
    case DType::u64:
      return store<i64>(at, i, n);
    case DType::i32:
    case DType::u32:
      return store<i32>(at, i, i32(n));
    case DType::i16:
    case DType::u16:
      return store<i16>(at, i, i16(n));
    case DType::i8:
    case DType::u8:
      return store<i8>(at, i, i8(n));
    case DType::boolean:
      return store<bool>(at, i, v.f != 0);
    default:
      throw DtypeError(str("[factory] ", dtype_name(t), " is for storage only"));
  }
}

// From value(i), a Scalar.
template <class F>
Tensor generate(const Shape& shape, DType t, const TensorOptions& o, Frame at, F value) {
  return detail::made_on_cpu(shape, t, o, at, [&](void* to, i64 n) {
    for (i64 i = 0; i < n; ++i) {
      const Scalar v = value(i);
      detail::require_held("tensor", t, v, at);
      store_as(to, t, i, v);
    }
  });
}

// The main thread's; another thread draws from a fork of its seed that no other thread has.
Generator main_generator{0};
const std::thread::id main_thread = std::this_thread::get_id();
std::atomic<u64> main_seed{0}, threads{0};

Generator& own_generator() {
  if (std::this_thread::get_id() == main_thread) return main_generator;
  struct Own {
    Generator generator{main_seed, mix64(++threads)};
  };
  return thread_object<Own>().generator;
}

}  // namespace

Tensor detail::made_on_cpu(const Shape& shape, DType t, const TensorOptions& o, Frame at,
                           const std::function<void(void*, i64)>& write) {
  const FactoryScope scope(kFactory, at);
  const SliceScope one({});  // what the host writes is no slice of anything
  if (o.device.is_meta) return finish(make_empty(shape, t, o.device), o, at);
  Tensor host = make_empty(shape, t, Device::cpu());
  write(host.impl()->data, host.numel());
  if (o.device == Device::cpu()) return finish(std::move(host), o, at);
  Tensor there = make_empty(shape, t, o.device);
  copy_bytes(there.impl()->data, o.device, host.impl()->data, Device::cpu(),
             host.numel() * item_size(t));
  return finish(std::move(there), o, at);
}

Generator& generator() { return mode.generator ? *mode.generator : own_generator(); }
void manual_seed(u64 seed) {
  Generator& g = generator();
  const u64 rank = g.rank();
  g = Generator(seed);
  g.set_rank(rank);
  if (&g == &main_generator) main_seed = seed;
}

RandomCall next_random_call(RandomStream s) {
  detail::check_slice_draws();
  for (const RandomLog* log = mode.random_log; log; log = log->outer) {
    if (!log->replaying) continue;
    if (log->next == log->calls.size())
      throw UsageError(
          "[checkpoint] the recomputation draws more random numbers than the forward did");
    return log->calls[log->next];
  }
  const Generator& g = generator();
  Tensor base = s == RandomStream::dropout ? g.dropout_base() : Tensor();
  if (s == RandomStream::dropout && !base.defined())
    detail::not_in_a_graph("dropout",
                           "the host counts its draws, and a replay would repeat this one");
  return {g.key(s), g.calls(s), std::move(base)};
}

void count_random_call(RandomStream s, const RandomCall& call) {
  for (RandomLog* log = mode.random_log; log; log = log->outer) {
    if (log->replaying) {
      ++log->next;
      return;
    }
    log->calls.push_back(call);
  }
  generator().next_call(s);
}

Tensor empty(const Shape& shape, const TensorOptions& o, Frame at) {
  const FactoryScope scope(kEmpty, at);
  return finish(make_empty(shape, dtype_or_default(o), o.device), o, at);
}

Tensor full(const Shape& shape, Scalar value, const TensorOptions& o, Frame at) {
  const FactoryScope scope(kFactory, at);
  Tensor t = make_empty(shape, o.dtype.value_or(dtype_of_scalar(value)), o.device);
  {
    const NoGrad no_grad;
    t.fill_(value, at);
  }
  t.impl()->cell->version = 0;
  return finish(std::move(t), o, at);
}

Tensor zeros(const Shape& shape, const TensorOptions& o, Frame at) {
  TensorOptions with = o;
  with.dtype = dtype_or_default(o);
  return full(shape, 0, with, at);
}
Tensor ones(const Shape& shape, const TensorOptions& o, Frame at) {
  TensorOptions with = o;
  with.dtype = dtype_or_default(o);
  return full(shape, 1, with, at);
}

// With t's slices, so that they can be written (core/slices.h).
template <class Make>
static Tensor made_like(const Tensor& t, Frame at, Make make) {
  const Shape shape = t.shape(at);
  const TensorOptions o = options_of(t, at);
  const detail::SliceAxes* axes = mode.slow & kSlowSliced ? detail::slices_of(t.impl()) : nullptr;
  if (!axes) return make(shape, o);
  const detail::SliceScope slices(*axes);
  return make(shape, o);
}
Tensor empty_like(const Tensor& t, Frame at) {
  return made_like(t, at, [&](const Shape& s, const TensorOptions& o) { return empty(s, o, at); });
}
Tensor zeros_like(const Tensor& t, Frame at) { return full_like(t, 0, at); }
Tensor ones_like(const Tensor& t, Frame at) { return full_like(t, 1, at); }
Tensor full_like(const Tensor& t, Scalar v, Frame at) {
  return made_like(t, at,
                   [&](const Shape& s, const TensorOptions& o) { return full(s, v, o, at); });
}

Tensor tensor(Scalar value, const TensorOptions& o, Frame at) {
  if (detail::recording_graph())  // a launch, where a copy from the host cannot be
    return full({}, value, o, at);
  return generate({}, o.dtype.value_or(dtype_of_scalar(value)), o, at, [=](i64) { return value; });
}

static DType dtype_of_values(const Scalar* begin, const Scalar* end) {
  Scalar widest(false);
  if (begin == end) return mode.default_dtype;
  for (const Scalar* v = begin; v != end; ++v)
    if (v->category() > widest.category()) widest = *v;
  return dtype_of_scalar(widest);
}

Tensor tensor(std::initializer_list<Scalar> values, const TensorOptions& o, Frame at) {
  const DType t = o.dtype.value_or(dtype_of_values(values.begin(), values.end()));
  return generate({values.size()}, t, o, at, [&](i64 i) { return values.begin()[i]; });
}

Tensor tensor(std::initializer_list<std::initializer_list<Scalar>> rows, const TensorOptions& o,
              Frame at) {
  return detail::from_rows(detail::rows_of_numbers(rows), o, at);
}
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<Scalar>>> matrices,
              const TensorOptions& o, Frame at) {
  return detail::from_matrices(detail::matrices_of_numbers(matrices), o, at);
}

namespace detail {
// Appends the rows' numbers. Throws ShapeError unless each has `width` of them.
static void append_rows(const NumberRows& rows, size_t width, std::vector<Scalar>& flat, Frame at) {
  for (size_t r = 0; r < rows.count; ++r) {
    const size_t length = rows.length(rows.rows, r);
    if (length != width)
      throw ShapeError(
          str("[tensor] rows of ", width, " and ", length, " values\n  at ", describe(at)));
    for (size_t i = 0; i < width; ++i) flat.push_back(rows.value(rows.rows, r, i));
  }
}
static size_t width_of(const NumberRows& rows) {
  return rows.count ? rows.length(rows.rows, 0) : 0;
}
static Tensor from_scalars(const Shape& shape, const std::vector<Scalar>& flat,
                           const TensorOptions& o, Frame at) {
  const DType t = o.dtype.value_or(dtype_of_values(flat.data(), flat.data() + flat.size()));
  return generate(shape, t, o, at, [&](i64 i) { return flat[size_t(i)]; });
}
Tensor from_rows(const NumberRows& rows, const TensorOptions& o, Frame at) {
  std::vector<Scalar> flat;
  append_rows(rows, width_of(rows), flat, at);
  return from_scalars({rows.count, width_of(rows)}, flat, o, at);
}
Tensor from_matrices(const NumberMatrices& m, const TensorOptions& o, Frame at) {
  std::vector<Scalar> flat;
  const NumberRows first = m.count ? m.matrix(m.matrices, 0) : NumberRows{};
  for (size_t i = 0; i < m.count; ++i) {
    const NumberRows rows = m.matrix(m.matrices, i);
    if (rows.count != first.count)
      throw ShapeError(str("[tensor] matrices of ", first.count, " and ", rows.count,
                           " rows\n  at ", describe(at)));
    append_rows(rows, width_of(first), flat, at);
  }
  return from_scalars({m.count, first.count, width_of(first)}, flat, o, at);
}

Tensor from_values(const void* values, DType as, const Shape& shape, const TensorOptions& o,
                   Frame at) {
  const SliceScope one({});
  TensorOptions host;
  host.dtype = as;
  host.device = Device::cpu();
  Tensor t = empty(shape, host, at);
  if (t.numel()) std::memcpy(t.impl()->data, values, size_t(t.numel() * item_size(as)));
  const NoGrad no_grad;
  t = t.to(*o.dtype, at).to(o.device, at);
  return finish(std::move(t), o, at);
}
}  // namespace detail

Tensor from_blob(void* data, const Shape& shape, void (*deleter)(void*), void* argument,
                 const TensorOptions& o, const Shape& strides, Frame at) {
  const DType t = dtype_or_default(o);
  const Shape steps = strides.empty() ? contiguous_strides(shape) : strides;
  if (steps.ndim() != shape.ndim())
    throw ShapeError(str("[from_blob] ", steps.ndim(), " strides for shape ", shape));
  i64 reach = numel_of(shape) ? 1 : 0;  // elements from the first to the last, both included
  for (int i = 0; i < shape.ndim() && reach; ++i) {
    if (steps[i] < 0) throw ShapeError(str("[from_blob] a negative stride in ", steps));
    reach = checked_add(reach, checked_mul(shape[i] - 1, steps[i]));
  }
  if (!data && reach) throw UsageError("[from_blob] a null pointer");
  if (reinterpret_cast<u64>(data) % u64(item_size(t)) != 0)
    throw UsageError(str("[from_blob] the pointer is not aligned for ", dtype_name(t)));
  Storage* s = adopt_memory(o.device, data, bytes_for(reach, t), deleter, argument);
  TensorImpl* p = new_impl();
  p->storage = s;
  p->data = data;
  p->cell = &s->cell;
  p->key = tensor_key(t, o.device);
  p->geometry.ndim = u8(shape.ndim());
  p->geometry.dtype = t;
  for (int i = 0; i < shape.ndim(); ++i)
    p->geometry.shape[i] = shape[i], p->geometry.strides[i] = steps[i];
  finish_geometry(p->geometry);
  return finish(Tensor(p), o, at);
}

Tensor from_blob(void* data, const Shape& shape, Borrow, const TensorOptions& o,
                 const Shape& strides, Frame at) {
  return from_blob(data, shape, nullptr, nullptr, o, strides, at);
}

}  // namespace wt
