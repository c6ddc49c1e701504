#include "warptape/data/cache.h"

#include <cstring>
#include <mutex>
#include <unordered_map>

#include "warptape/core/factories.h"

namespace wt::data::detail {

// What a row of one of the batch's tensors is; without the first axis.
struct RowType {
  Shape shape;
  DType dtype = DType::f32;
  bool defined = false;
  size_t bytes() const { return defined ? size_t(numel_of(shape) * item_size(dtype)) : 0; }
  friend bool operator==(const RowType&, const RowType&) = default;
};
using Rows = std::vector<RowType>;  // of all tensors

// The rows of its tensors, one behind the other.
struct KeptRows {
  std::shared_ptr<const Rows> type;
  std::unique_ptr<char[]> bytes;
};

namespace {

size_t bytes_of(const Rows& rows) {
  size_t sum = 0;
  for (const RowType& r : rows) sum += r.bytes();
  return sum;
}

Rows rows_of(std::span<Tensor* const> batch, size_t samples) {
  Rows rows;
  for (const Tensor* t : batch) {
    if (!t->defined()) {
      rows.push_back({});
      continue;
    }
    if (t->device() != Device::cpu())
      throw PlacementError(str("[cache_in_ram] batches lie on the cpu\n  ", describe(*t)));
    if (t->ndim() == 0 || t->size(0) != i64(samples))
      throw ShapeError(str("[cache_in_ram] a tensor of ", samples,
                           " samples needs that first size\n  ", describe(*t)));
    Shape shape = t->shape();
    shape.erase(0);
    rows.push_back({shape, t->dtype(), true});
  }
  return rows;
}

[[noreturn]] void unlike(i64 sample, const RowType& first, const RowType& other) {
  const auto text = [](const RowType& r) {
    return r.defined ? str(dtype_name(r.dtype), " ", r.shape) : std::string("undefined");
  };
  const std::string what =
      str("[cache_in_ram] samples of one batch have different rows\n  the first: ", text(first),
          "\n  sample ", sample, ": ", text(other),
          "\n  Try padding on top of the cache (data::collate)");
  if (first.defined && other.defined && first.dtype != other.dtype) throw DtypeError(what);
  throw ShapeError(what);
}

}  // namespace

struct RowCache::State {
  const i64 limit;
  mutable std::mutex mutex{};
  i64 size = -1;
  u64 version = 0, generation = 0;  // counts what `version` and `size` have been
  i64 bytes = 0, samples = 0;
  std::vector<std::shared_ptr<const KeptRows>> kept{};
};

RowCache::RowCache(i64 limit) {
  if (limit < 0) throw UsageError(str("[cache_in_ram] bytes must not be negative, got ", limit));
  state_.reset(new State{.limit = limit});
}
RowCache::~RowCache() = default;

i64 RowCache::bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bytes;
}
i64 RowCache::samples() const {
  const std::lock_guard lock(state_->mutex);
  return state_->samples;
}

RowCache::Found RowCache::find(std::span<const i64> samples, i64 size, u64 version) {
  State& s = *state_;
  std::vector<std::shared_ptr<const KeptRows>> old;  // freed without the lock
  Found found;
  std::unordered_map<i64, size_t> places;
  const std::lock_guard lock(s.mutex);
  if (s.size != size || s.version != version) {
    old.swap(s.kept);
    s.kept.resize(size_t(size));
    s.size = size;
    s.version = version;
    s.bytes = s.samples = 0;
    ++s.generation;
  }
  found.generation = s.generation;
  for (const i64 i : samples) {
    found.kept.push_back(s.kept[size_t(i)]);
    found.place.push_back(Found::kKept);
    if (found.kept.back()) continue;
    const auto [at, is_new] = places.try_emplace(i, found.missing.size());
    if (is_new) found.missing.push_back(i);
    found.place.back() = at->second;
  }
  return found;
}

namespace {

// A batch that was read.
struct Read {
  std::shared_ptr<const Rows> type;
  std::vector<Tensor> dense{};
  // Where tensor j's row of its k-th sample begins.
  const char* row(size_t k, size_t j) const {
    return static_cast<const char*>(dense[j].impl()->data) + k * (*type)[j].bytes();
  }
};

Read read_of(std::span<Tensor* const> batch, size_t samples) {
  Read read{.type = std::make_shared<const Rows>(rows_of(batch, samples))};
  for (const Tensor* t : batch) read.dense.push_back(t->defined() ? t->contiguous() : Tensor());
  return read;
}

std::shared_ptr<const KeptRows> copy_of(const Read& read, size_t k) {
  const size_t size = bytes_of(*read.type);
  auto rows =
      std::make_shared<KeptRows>(KeptRows{read.type, std::make_unique_for_overwrite<char[]>(size)});
  char* to = rows->bytes.get();
  for (size_t j = 0; j < read.type->size(); ++j) {
    const size_t n = (*read.type)[j].bytes();
    if (n > 0) std::memcpy(to, read.row(k, j), n);
    to += n;
  }
  return rows;
}

}  // namespace

void RowCache::fill(const Found& found, std::span<const i64> samples,
                    std::span<Tensor* const> read_batch, std::span<Tensor* const> batch) {
  const size_t missing = found.missing.size();
  Read read;
  if (missing > 0) read = read_of(read_batch, missing);
  const auto rows_at = [&](size_t i) -> const Rows& {
    return found.kept[i] ? *found.kept[i]->type : *read.type;
  };
  const Rows& first = rows_at(0);
  for (size_t i = 1; i < samples.size(); ++i)
    if (&rows_at(i) != &first)
      for (size_t j = 0; j < first.size(); ++j)
        if (!(rows_at(i).at(j) == first[j])) unlike(samples[i], first[j], rows_at(i)[j]);
  size_t offset = 0;
  for (size_t j = 0; j < first.size(); offset += first[j++].bytes()) {
    if (!first[j].defined) continue;
    Shape shape = first[j].shape;
    shape.insert(0, i64(samples.size()));
    Tensor t = empty(shape, {.dtype = first[j].dtype, .device = Device::cpu()});
    char* to = static_cast<char*>(t.impl()->data);
    const size_t n = first[j].bytes();
    for (size_t i = 0; i < samples.size() && n > 0; ++i, to += n)
      std::memcpy(
          to, found.kept[i] ? found.kept[i]->bytes.get() + offset : read.row(found.place[i], j), n);
    *batch[j] = std::move(t);
  }
  if (missing > 0)
    keep(found, i64(bytes_of(*read.type)), [&](size_t k) { return copy_of(read, k); });
}

void RowCache::keep(const Found& found, i64 each,
                    const std::function<std::shared_ptr<const KeptRows>(size_t)>& copy) {
  State& s = *state_;
  for (size_t k = 0; k < found.missing.size(); ++k) {
    {
      const std::lock_guard lock(s.mutex);
      if (s.generation != found.generation || s.bytes + each > s.limit) return;
      if (s.kept[size_t(found.missing[k])]) continue;
      s.bytes += each;  // ours, whoever comes now
    }
    std::shared_ptr<const KeptRows> rows;
    try {
      rows = copy(k);
    } catch (...) {
      const std::lock_guard lock(s.mutex);
      if (s.generation == found.generation) s.bytes -= each;
      throw;
    }
    const std::lock_guard lock(s.mutex);
    if (s.generation != found.generation) return;
    auto& place = s.kept[size_t(found.missing[k])];
    if (place) {  // another thread was faster
      s.bytes -= each;
      continue;
    }
    place = std::move(rows);
    ++s.samples;
  }
}

}  // namespace wt::data::detail
