#include "warptape/tests/op_cases/inputs.h"

#include <sys/mman.h>

#include "warptape/core/philox.h"

namespace wt_test {
namespace {

double random_value(const Input& in, DType t, u64 seed, u64 i) {
  const double u = double(mix64(seed * 0x9e3779b97f4a7c15ull + i) >> 11) * 0x1p-53;
  const bool truth = in.role == Role::truth || (t == DType::boolean && in.role == Role::value);
  if (truth) return u < 0.5 ? 0 : 1;
  if (in.role == Role::index) return std::floor(in.low + u * (in.high - in.low));
  if (in.whole || !is_floating(t)) {
    const double low = t == DType::u8 ? std::max(0.0, std::ceil(in.low)) : std::ceil(in.low);
    return low + std::floor(u * (std::floor(in.high) - low + 1));
  }
  double v = in.low + u * (in.high - in.low);
  for (double kink : in.kinks)
    if (std::fabs(v - kink) < 0.01) v = kink + (v < kink ? -0.02 : 0.02);
  return v;
}

DType dtype_of_role(Role r, DType t) {
  return r == Role::value ? t : r == Role::index ? DType::i64 : DType::boolean;
}

Tensor dense(const std::vector<double>& v, const Shape& s, DType t, Device d) {
  return tensor(v).reshape(s).to(t).to(d);
}

// The values at `from` in every third place of an axis three times as long and one longer.
Tensor strided(const std::vector<double>& v, const Shape& s, DType t, Device d) {
  if (s.empty()) return dense({1, v[0], 1}, {3}, t, d).select(0, 1);
  const int last = s.ndim() - 1;
  Shape wide = s;
  wide[last] = 3 * s[last] + 1;
  std::vector<double> w(size_t(count(wide)), 1.0);
  for (i64 i = 0; i < count(s); ++i) {
    std::vector<i64> at = unravel(i, s);
    at.back() = 3 * at.back() + 1;
    w[size_t(ravel(at, wide))] = v[size_t(i)];
  }
  return dense(w, wide, t, d).slice(last, {1, wide[last], 3});
}

Tensor transposed(const std::vector<double>& v, const Shape& s, DType t, Device d) {
  const int n = s.ndim();
  if (n < 2) return strided(v, s, t, d);
  return dense(v, s, t, d).transpose(n - 2, n - 1).contiguous().transpose(n - 2, n - 1);
}

Tensor expanded(const std::vector<double>& v, const Shape& s, DType t, Device d) {
  for (int a = 0; a < s.ndim(); ++a)
    if (s[a] > 1) return dense(v, s, t, d).narrow(a, 0, 1).contiguous().expand(s);
  return dense(v, s, t, d);
}

// The smallest axis of several elements has steps of more than 2^31: whoever keeps an offset in 32
// bits reads elsewhere. The memory is reserved, and only the pages of the elements are touched.
struct Reserved {
  void* data;
  size_t bytes;
};
void give_back(void* p) {
  auto* r = static_cast<Reserved*>(p);
  munmap(r->data, r->bytes);
  delete r;
}
Tensor far(const std::vector<double>& v, const Shape& s, DType t) {
  int axis = -1;
  for (int a = 0; a < s.ndim(); ++a)
    if (s[a] > 1 && (axis < 0 || s[a] < s[axis])) axis = a;
  const Tensor values = dense(v, s, t, Device::cpu());
  if (axis < 0) return values;
  constexpr i64 kStep = (i64(1) << 31) + 8;
  Shape strides = values.strides();
  strides[axis] = kStep;
  const size_t bytes = size_t((s[axis] - 1) * kStep + count(s)) * size_t(item_size(t));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw std::runtime_error(str("[tests] no address space of ", bytes, " bytes for a far layout"));
  Tensor x = from_blob(memory, s, give_back, new Reserved{memory, bytes},
                       {.dtype = t, .device = Device::cpu()}, strides);
  x.copy_(values);
  return x;
}

}  // namespace

double stored_as(double v, DType t) {
  if (t == DType::boolean) return v != 0;
  if (t == DType::u8) return double(u8(i64(v)));
  return v;
}

Inputs make_inputs(const Case& c, Device d, bool grad) {
  const NoGrad no_grad;
  Inputs r;
  u64 salt = 0;
  for (const Input& in : c.call().inputs) {
    const DType t = dtype_of_role(in.role, c.dtype);
    std::vector<double> v = in.values;
    if (v.empty())
      for (i64 i = 0; i < count(in.shape); ++i)
        v.push_back(random_value(in, c.dtype, c.seed + salt, u64(i)));
    salt += 0x51ed27;
    Tensor x = c.layout == 't'                                ? transposed(v, in.shape, t, d)
               : c.layout == 's'                              ? strided(v, in.shape, t, d)
               : c.layout == 'e'                              ? expanded(v, in.shape, t, d)
               : c.layout == 'f' && d.kind == DeviceKind::cpu ? far(v, in.shape, t)
                                                              : dense(v, in.shape, t, d);
    r.arrays.push_back({in.shape, x.to_vector<double>()});
    if (grad && in.wants_grad && is_floating(t)) x = x.detach().set_requires_grad();
    r.tensors.push_back(std::move(x));
  }
  return r;
}

std::vector<Tensor> reference_inputs(const Sample& s, const std::vector<Array>& arrays) {
  std::vector<Tensor> r;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Input& in = s.inputs[i];
    Tensor x = dense(arrays[i].v, in.shape, dtype_of_role(in.role, f64), Device::cpu());
    if (in.wants_grad && in.role == Role::value) x.set_requires_grad();
    r.push_back(std::move(x));
  }
  return r;
}

}  // namespace wt_test
