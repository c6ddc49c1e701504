// For kernel tests: every variant of a contract on the devices that are built, random values, and
// the bound that results are held against.
#pragma once
#include <cmath>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/core/tensor.h"
#include "warptape/kernels/pointwise.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"

namespace wt_test {

using namespace wt;

// Devices on which composites of operators run: simt from the day its pointwise kernels are there.
// Says aloud what it leaves out.
inline std::vector<Device> operator_devices() {
  if (ContractTable<PointwiseArgs<pw::Mul>>::rows[int(DeviceKind::simt)]) return kernel_devices();
  std::printf("SKIPPED: simt, whose pointwise kernels are not there yet\n");
  return {Device::cpu()};
}

// Runs each variant that supports `args` on `d`, then `check`. `ran` collects "device:variant".
template <class Args>
void for_each_variant(Device d, const Args& args, const std::function<void()>& check,
                      std::set<std::string>* ran = nullptr) {
  const Variants<Args>* list = ContractTable<Args>::rows[int(d.kind)];
  REQUIRE(list != nullptr);
  for (int i = 0; i < list->count; ++i) {
    const Variant<Args>& v = list->rows[i];
    if (refusal(v, args, d)) continue;
    const std::string name = std::string(device_kind_name(d.kind)) + ":" + v.name;
    INFO(ContractTable<Args>::kName << " " << name);
    Launch l;
    l.device = d;
    const i64 bytes = v.workspace ? v.workspace(args) : 0;
    Storage* workspace = bytes ? allocate(d, bytes) : nullptr;
    if (workspace) l.workspace = workspace->data;
    v.launch(args, l);
    if (workspace) release(workspace);
    check();
    if (ran) ran->insert(name);
  }
}

// That these variants ran, "cpu:reference" or "simt:warp", where this run walks their device; what
// simt has cuda has too.
inline void check_ran(const std::set<std::string>& ran, std::initializer_list<const char*> names) {
  for (const std::string name : names)
    for (const Device& d : kernel_devices()) {
      const std::string kind = device_kind_name(d.kind), variant = name.substr(name.find(':') + 1);
      if ((kind == "cpu") != name.starts_with("cpu:")) continue;
      INFO(kind << ":" << variant);
      CHECK(ran.count(kind + ":" + variant) == 1);
    }
}

// Values in [-scale, scale), the same everywhere.
inline std::vector<double> random_values(i64 n, u64 seed, double scale = 1) {
  std::vector<double> v(static_cast<size_t>(n));
  for (double& x : v) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    x = scale * (double(seed >> 11) / double(1ull << 52) - 1.0);
  }
  return v;
}

// Unit roundoff of a stored type.
inline double roundoff(DType t) {
  switch (t) {
    case DType::f64:
      return 0x1p-53;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}
// The error a sum of `terms` products may have: rounding of the output, and of each addition in
// the accumulator (f32, or f64 for f64). `magnitude` is the sum of absolute values.
inline double error_bound(DType t, double terms, double reference, double magnitude) {
  const double accumulator = t == DType::f64 ? 0x1p-53 : 0x1p-24;
  const double smallest = t == DType::f16 ? 0x1p-25 : 1e-38;
  return roundoff(t) * std::fabs(reference) + (terms + 8) * accumulator * magnitude + smallest;
}
// Equal within the bound; NaN and inf must agree.
inline bool close(double got, double want, double bound) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::fabs(got - want) <= bound;
}

// `values` as a tensor of dtype t on d, and what of them is left after rounding to t.
inline Tensor to_tensor(const std::vector<double>& values, const Shape& shape, DType t, Device d) {
  return tensor(values).reshape(shape).to(t).to(d);
}
inline std::vector<double> to_doubles(const Tensor& t) { return t.to_vector<double>(); }

inline View view(const Tensor& t) { return view_of(t.impl()); }

}  // namespace wt_test
