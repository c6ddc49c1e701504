#include "warptape/bench/gpu/problems.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <tuple>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/bench/gpu/maker.h"
#include "warptape/core/error.h"
#include "warptape/core/memory/copy_bytes.h"

namespace wt::bench {
namespace {

u64 mix(u64 x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
double drawn(double n, Draw draw) {
  switch (draw) {
    case Draw::positive:
      return std::fabs(n) + 0.01;
    case Draw::above_one:
      return std::fabs(n) + 1.01;
    case Draw::within_one:
      return n / (1 + std::fabs(n));
    default:
      return n;
  }
}
double uniform(u64 i) { return (double(mix(i) >> 11) + 0.5) / double(u64{1} << 53); }

// The first `have` elements repeated over the whole of x.
void repeat(const Tensor& x, i64 have, Device d) {
  const i64 item = item_size(x.dtype());
  char* base = static_cast<char*>(x.impl()->data);
  for (const i64 n = x.numel(); have < n;) {
    const i64 more = std::min(have, n - have);
    copy_bytes(base + have * item, d, base, d, more * item);
    have += more;
  }
}

constexpr i64 kTile = i64{1} << 18;

}  // namespace

void add_variants(Problem& p, const detail::ErasedContract& c, std::vector<ArgsBytes> given) {
  const auto sets = std::make_shared<const std::vector<ArgsBytes>>(std::move(given));
  const void* const first = sets->front().data();
  const detail::ErasedContract::Facts facts = c.facts(first);
  const Device d = p.device;
  p.contract = c.name;
  p.bytes = double(facts.bytes);
  p.flops = facts.flops;
  const void* const best = detail::best_erased(c, first, d);
  for (int i = 0; i < c.count(d.kind); ++i) {
    const void* const v = c.variant(d.kind, i);
    const char* const name = c.described(v).name;
    if (v == best) p.chosen = name;
    const auto why_not = [&c, v, sets, d] {
      int rank;
      return c.refusal(v, sets->front().data(), d, rank);
    };
    const auto launch = [&c, v, sets, d](int k) {
      const void* const args = (*sets)[size_t(k) % sets->size()].data();
      Launch l;
      l.device = d;
      const i64 bytes = c.workspace(v, args);
      Storage* workspace = bytes ? allocate(d, bytes) : nullptr;
      if (workspace) l.workspace = workspace->data;
      c.launch(v, args, l);
      if (workspace) release(workspace);
    };
    p.variants.push_back({name, why_not, launch});
  }
}

// The first numbers of a seed, made once: drawing them costs more than most kernels.
static const Tensor& normal_tile(u64 seed, DType t, Draw draw) {
  static std::map<std::tuple<u64, DType, Draw>, Tensor> tiles;
  Tensor& tile = tiles[{seed, t, draw}];
  if (tile.defined()) return tile;
  std::vector<double> v(static_cast<size_t>(kTile));
  const u64 base = mix(seed) & ~u64{1};
  for (i64 i = 0; i < kTile; ++i) {
    const double x = std::sqrt(-2 * std::log(uniform(base + u64(2 * i)))) *
                     std::cos(6.283185307179586 * uniform(base + u64(2 * i) + 1));
    v[size_t(i)] = drawn(x, draw);
  }
  return tile = tensor(v).to(t);
}

Tensor Maker::normal(const Shape& s, DType t, Draw draw) {
  const Tensor out = kept(empty(s, {.dtype = t, .device = device_}));
  const i64 n = std::min(out.numel(), kTile);
  ++seed_;
  if (n == 0) return out;
  const Tensor& tile = normal_tile(seed_, t, draw);
  copy_bytes(out.impl()->data, device_, tile.impl()->data, Device::cpu(), n * item_size(t));
  repeat(out, n, device_);
  return out;
}

Tensor Maker::indices(const Shape& s, i64 n) {
  const Tensor x = kept(empty(s, {.dtype = DType::i64, .device = device_}));
  const i64 count = std::min(x.numel(), kTile);
  std::vector<i64> v(static_cast<size_t>(count));
  const u64 base = mix(++seed_);
  for (i64 i = 0; i < count; ++i) v[size_t(i)] = i64(mix(base + u64(i)) % u64(n));
  copy_bytes(x.impl()->data, device_, v.data(), Device::cpu(), count * 8);
  repeat(x, count, device_);
  return x;
}

Tensor Maker::bytes(const void* host, i64 size) {
  const Tensor x = kept(empty({size}, {.dtype = DType::u8, .device = device_}));
  copy_bytes(x.impl()->data, device_, host, Device::cpu(), size);
  return x;
}

Tensor Maker::scalar(double v, DType t) { return kept(tensor({v}).to(t).reshape({}).to(device_)); }

Tensor Maker::out(const Shape& s, DType t) {
  return kept(empty(s, {.dtype = t, .device = device_}));
}

void poison_outputs(Problem& p) {
  for (const Tensor& out : p.outputs) {
    if (out.numel() == 0) continue;
    const i64 item = item_size(out.dtype());
    const i64 n = std::min<i64>(out.numel(), 4096);
    std::vector<u8> pattern(size_t(n * item), 0xFF);  // a NaN in every float type; -1
    copy_bytes(out.impl()->data, p.device, pattern.data(), Device::cpu(), n * item);
    repeat(out, n, p.device);
  }
  synchronize(p.device);
}

std::vector<double> sample_outputs(const Problem& p) {
  constexpr i64 kMost = i64{1} << 18;
  std::vector<double> all;
  for (const Tensor& out : p.outputs) {
    const i64 n = out.numel(), step = (n + kMost - 1) / kMost;
    const Tensor flat = out.reshape({n});
    const Tensor some = step > 1 ? slice(flat, 0, {0, n, step}) : flat;
    const std::vector<double> v = some.to_vector<double>();
    all.insert(all.end(), v.begin(), v.end());
  }
  return all;
}

double relative_error(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double error = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    if (std::isinf(want[i]) && got[i] == want[i]) continue;
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  if (!(error >= 0)) return std::numeric_limits<double>::infinity();
  return error == 0 ? 0 : std::sqrt(error / std::max(norm, 1e-300));
}

double tolerance(DType t) {
  switch (t) {
    case DType::f64:
      return 1e-10;
    case DType::f16:
      return 3e-3;
    case DType::bf16:
      return 1e-2;
    default:
      return is_floating(t) ? 1e-5 : 0;
  }
}

const std::vector<ProblemRow>& problem_rows() {
  static const std::vector<ProblemRow> rows = [] {
    std::vector<ProblemRow> all, sorted;
    add_launched_rows(all);
    add_optim_rows(all);
    add_data_rows(all);
    add_image_rows(all);
    for (const ContractInfo& c : all_contracts())
      for (const ProblemRow& r : all)
        if (r.contract == c.name) sorted.push_back(r);
    return sorted;
  }();
  return rows;
}

std::vector<std::string> missing_rows() {
  std::vector<std::string> missing;
  for (const ContractInfo& c : all_contracts()) {
    const auto same = [&](const ProblemRow& r) { return r.contract == c.name; };
    if (std::none_of(problem_rows().begin(), problem_rows().end(), same)) missing.push_back(c.name);
  }
  return missing;
}

}  // namespace wt::bench
