#include "warptape/data/combine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "warptape/core/checked.h"
#include "warptape/core/factories.h"
#include "warptape/data/loader.h"

namespace wt::data {

Concat::Concat(std::vector<AnyDataset> parts) : parts_(std::move(parts)) {
  if (parts_.empty()) throw UsageError("[Concat] no dataset was given");
}

std::vector<i64> Concat::ends() const {
  std::vector<i64> ends;
  ends.reserve(parts_.size());
  i64 end = 0;
  for (const AnyDataset& d : parts_) ends.push_back(end += d.size());
  return ends;
}

i64 Concat::size() const { return ends().back(); }
bool Concat::in_memory() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const AnyDataset& d) { return d.in_memory(); });
}

u64 Concat::version() const {
  u64 sum = 0;
  for (const AnyDataset& d : parts_) sum += d.version();
  return sum;
}

namespace {

// Where the rows of one part's batch go.
struct Piece {
  Batch rows;
  std::vector<size_t> places;
};

void check_alike(const Tensor& a, const Tensor& b, const char* name) {
  Shape sa = a.shape(), sb = b.shape();
  if (sa.size() && sb.size()) sa[0] = sb[0] = 0;
  if (sa != sb)
    throw ShapeError(str("[Concat] the parts' ", name, " do not fit into one batch\n  ",
                         describe(a), "\n  ", describe(b)));
  if (a.dtype() != b.dtype())
    throw DtypeError(str("[Concat] the parts' ", name, " have different dtypes\n  ", describe(a),
                         "\n  ", describe(b)));
}

Tensor merge(const std::vector<Piece>& pieces, size_t n, Tensor Batch::*member, const char* name) {
  const Tensor& first = pieces[0].rows.*member;
  Shape shape = first.shape();
  shape[0] = i64(n);
  Tensor out = empty(shape, {.dtype = first.dtype(), .device = Device::cpu()});
  const size_t row = size_t(out.numel() / shape[0] * item_size(out.dtype()));
  char* to = static_cast<char*>(out.impl()->data);
  for (const Piece& p : pieces) {
    check_alike(first, p.rows.*member, name);
    const Tensor rows = (p.rows.*member).to(Device::cpu()).contiguous();
    const char* from = static_cast<const char*>(rows.impl()->data);
    for (size_t i = 0; i < p.places.size(); ++i)
      std::memcpy(to + p.places[i] * row, from + i * row, row);
  }
  return out;
}

}  // namespace

Batch Concat::batch(std::span<const i64> samples, i64 epoch) const {
  std::vector<std::vector<i64>> wanted(parts_.size());
  std::vector<std::vector<size_t>> places(parts_.size());
  const std::vector<i64> ends = this->ends();
  for (size_t i = 0; i < samples.size(); ++i) {
    detail::check_sample("Concat", samples[i], ends.back());
    const size_t part =
        size_t(std::upper_bound(ends.begin(), ends.end(), samples[i]) - ends.begin());
    wanted[part].push_back(samples[i] - (part ? ends[part - 1] : 0));
    places[part].push_back(i);
  }
  std::vector<Piece> pieces;
  for (size_t p = 0; p < parts_.size(); ++p)
    if (!wanted[p].empty())
      pieces.push_back({parts_[p].batch(wanted[p], epoch), std::move(places[p])});
  if (pieces.empty()) return parts_[0].batch({});
  if (pieces.size() == 1) return std::move(pieces[0].rows);  // its places are 0, 1, 2, ...
  return {merge(pieces, samples.size(), &Batch::x, "inputs"),
          merge(pieces, samples.size(), &Batch::y, "targets")};
}

std::vector<i64> detail::split_lengths(std::span<const Scalar> parts, i64 n) {
  bool fractions = false;
  double sum = 0;
  for (const Scalar& p : parts) {
    fractions |= p.kind == Scalar::Kind::floating;
    if (!(p.to_double() >= 0))
      throw UsageError(str("[random_split] a part of ", p.to_double(), " samples makes no sense"));
    sum += p.to_double();
  }
  std::vector<i64> lengths;
  if (!fractions) {
    i64 total = 0;
    for (const Scalar& p : parts) {
      lengths.push_back(p.i);
      if (!add_fits(total, p.i, total)) total = -1;
      if (total < 0) break;
    }
    if (total != n)
      throw UsageError(
          str("[random_split] the lengths add up to ", sum, ", the dataset has ", n, " samples"));
    return lengths;
  }
  if (std::abs(sum - 1) > 1e-6)
    throw UsageError(str("[random_split] the fractions add up to ", sum,
                         ", not to 1\n  Try integers for numbers of samples"));
  i64 left = n;
  for (const Scalar& p : parts) {
    lengths.push_back(std::min(left, i64(std::floor(double(n) * p.to_double()))));
    left -= lengths.back();
  }
  for (size_t i = 0; left > 0; --left, ++i) ++lengths[i % lengths.size()];
  return lengths;
}

std::vector<std::vector<i64>> detail::split_indices(std::span<const Scalar> parts, i64 n,
                                                    u64 seed) {
  const std::vector<i64> lengths = split_lengths(parts, n);
  // Epoch -1: no epoch of a loader with the same seed has this order.
  const std::vector<i64> order = epoch_order(n, true, seed, -1);
  std::vector<std::vector<i64>> out;
  auto at = order.begin();
  for (const i64 length : lengths) {
    out.emplace_back(at, at + length);
    at += length;
  }
  return out;
}

}  // namespace wt::data
