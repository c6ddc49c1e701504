#include "warptape/optim/gradient_exponents.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/kernels/exponent_counts.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/arena.h"
#include "warptape/optim/train_step.h"

namespace wt {

// --- what a dtype holds ---

namespace {

// Exponents: below `lost` everything rounds to zero, below `normal` digits are missing, from
// `overflow` on there is no number.
struct DTypeRange {
  int lost, normal, overflow;
};
DTypeRange range_of(DType t) {
  switch (t) {
    case DType::f16:
      return {-25, -14, 16};
    case DType::bf16:
      return {-134, -126, 128};
    case DType::f32:
      return {-150, -126, 128};
    case DType::f64:
      return {-1075, -1022, 1024};
    default:
      throw UsageError(
          str("[gradient_exponents] ", dtype_name(t), " has no exponents\n  Try f16, bf16 or f32"));
  }
}

int exponent_of_scale(double scale) {
  if (!(scale > 0) || std::isinf(scale))
    throw UsageError(str("[gradient_exponents] scale must be above 0 and finite, got ", scale));
  return std::ilogb(scale);
}

}  // namespace

i64 ExponentRow::zeros() const { return counts[kZeroBin]; }
i64 ExponentRow::infinite() const { return counts[kInfBin]; }
i64 ExponentRow::nans() const { return counts[kNanBin]; }
i64 ExponentRow::elements() const {
  i64 n = 0;
  for (const i64 c : counts) n += c;
  return n;
}

i64 ExponentRow::between(int low, int high) const {
  low = std::max(low, kLowestExponent), high = std::min(high, kHighestExponent);
  i64 n = 0;
  for (int e = low; e <= high; ++e) n += counts[size_t(e - kLowestExponent)];
  return n;
}

DTypeShares ExponentRow::in(DType t, double scale) const {
  const DTypeRange r = range_of(t);
  const int shift = exponent_of_scale(scale);
  const i64 all = elements();
  if (all == 0) return {};
  const auto share = [&](i64 n) { return double(n) / double(all); };
  return {.zero = share(zeros()),
          .lost = share(between(kLowestExponent, r.lost - shift - 1)),
          .subnormal = share(between(r.lost - shift, r.normal - shift - 1)),
          .overflow = share(between(r.overflow - shift, kHighestExponent) + infinite()),
          .nan = share(nans())};
}

ExponentRow GradientExponents::total() const {
  ExponentRow all{"all", std::vector<i64>(kExponentBins, 0)};
  for (const ExponentRow& row : rows)
    for (size_t k = 0; k < size_t(kExponentBins); ++k) all.counts[k] += row.counts[k];
  return all;
}

char optim::detail::held(DType t, int exponent, double scale) {
  const DTypeRange r = range_of(t);
  const int e = exponent + exponent_of_scale(scale);
  return e < r.lost ? 'x' : e < r.normal ? '~' : e < r.overflow ? '-' : '^';
}

double GradientExponents::largest_scale(DType t) const {
  const ExponentRow all = total();
  for (int e = kHighestExponent; e >= kLowestExponent; --e)
    if (all.counts[size_t(e - kLowestExponent)])
      return std::ldexp(1.0, range_of(t).overflow - 1 - e);
  return 0;
}

// --- counting ---

namespace optim {

namespace info {
constexpr OpInfo gradient_exponents{.name = "gradient_exponents", .derivative = Derivative::none};
}

namespace {

std::vector<ExponentPart> parts_of(const detail::Slot& s, i32 row) {
  std::vector<ExponentPart> parts;
  const i64 n = s.entry.tensor.numel();
  for (i64 at = 0; at < n; at += kExponentPart)
    parts.push_back({s.offset + at, i32(std::min(kExponentPart, n - at)), row});
  return parts;
}

bool is_written(const detail::Slot& s) {
  const Leaf* l = leaf_of(s.entry.tensor.impl());
  if (l && l->invalid)
    throw NumericError(str("[gradient_exponents] the gradient of ", s.entry.name,
                           " is what a failed backward left", at_line(),
                           "\n  Try zero_grad() and another backward"));
  return l && l->written;
}

void count(const detail::Arena& a, const std::vector<ExponentPart>& parts, const Tensor& counts,
           double factor) {
  if (parts.empty()) return;
  const Device d = counts.device();
  const i64 bytes = i64(parts.size() * sizeof(ExponentPart));
  const Tensor list = empty({bytes}, {.dtype = DType::u8, .device = d});
  copy_bytes(list.impl()->data, d, parts.data(), Device::cpu(), bytes);
  run(ExponentCountsArgs{.x = a.at(a.grad, 0),
                         .n = a.elements,
                         .dtype = a.dtype,
                         .parts = static_cast<const ExponentPart*>(list.impl()->data),
                         .part_count = i64(parts.size()),
                         .counts = static_cast<i64*>(counts.impl()->data),
                         .rows = counts.size(0),
                         .factor = factor},
      {&info::gradient_exponents, mode.native_stream, nullptr, d});
}

}  // namespace

GradientExponents gradient_exponents(Optimizer& opt, double divisor, Frame at) {
  const FrameScope frame(at);
  if (divisor == 0 || !std::isfinite(divisor))
    throw UsageError(
        str("[gradient_exponents] divisor must be finite and not 0, got ", divisor, at_line()));
  const detail::Arenas& arenas = opt.arenas();
  opt.arenas().sync();
  if (arenas.sharding())
    throw NotAvailable(str("[gradient_exponents] the optimizer's state is in parts, and of most ",
                           "gradients this rank has no sum", at_line(), "\n  Try zero = 0"));
  const Device d = arenas.device();
  if (d.is_meta)
    throw PlacementError(str("[gradient_exponents] meta tensors have no values", at_line()));
  const auto slots = arenas.in_order();
  std::vector<std::vector<ExponentPart>> parts(arenas.all().size());
  bool any = false;
  for (size_t k = 0; k < slots.size(); ++k) {
    const auto& [arena, slot] = slots[k];
    if (!is_written(*slot)) continue;
    any = true;
    auto& of = parts[size_t(arena - arenas.all().data())];
    const std::vector<ExponentPart> more = parts_of(*slot, i32(k));
    of.insert(of.end(), more.begin(), more.end());
  }
  if (!any)
    throw UsageError(str("[gradient_exponents] no parameter has a gradient", at_line(),
                         "\n  Try it after a step or backward(), before zero_grad()"));
  const NoGrad no_grad;
  const CategoryScope scope(Category::workspace);
  wt::detail::before_wait("gradient_exponents", d, at);
  const SyncGuard counted(OnSync::allow);
  const Tensor counts =
      zeros({i64(slots.size()), kExponentBins}, {.dtype = DType::i64, .device = d});
  for (size_t k = 0; k < parts.size(); ++k) count(arenas.all()[k], parts[k], counts, 1 / divisor);
  const std::vector<i64> all = counts.to_vector<i64>();
  GradientExponents found;
  for (size_t k = 0; k < slots.size(); ++k) {
    const auto begin = all.begin() + std::ptrdiff_t(k * kExponentBins);
    found.rows.push_back({slots[k].second->entry.name, {begin, begin + kExponentBins}});
  }
  return found;
}

}  // namespace optim

GradientExponents TrainStep::gradient_exponents(Frame at) {
  const FrameScope frame(at);
  const Device d = opt_.device();
  if (opt_.attempted() == 0 || d.is_meta || block_.device() != d)
    return optim::gradient_exponents(opt_, 1, at);  // which says what is wrong
  wt::detail::before_wait("gradient_exponents", d, at);
  const SyncGuard counted(OnSync::allow);
  StepBlock block;
  copy_bytes(&block, Device::cpu(), block_.impl()->data, d, sizeof block);
  const double divisor = block.weight * (scaler_ ? block.seed : 1);
  // A step whose weight is 0 or NaN has no mean.
  const bool divides = divisor != 0 && std::isfinite(divisor);
  GradientExponents e = optim::gradient_exponents(opt_, divides ? divisor : 1, at);
  e.attempt = opt_.attempted() - 1;
  if (scaler_) e.scale = block.ring[e.attempt % kStepRing].scale;
  return e;
}

}  // namespace wt
