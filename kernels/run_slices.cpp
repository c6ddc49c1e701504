#include "warptape/kernels/run_slices.h"

#include <cstring>

#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/str.h"
#include "warptape/core/warning.h"

namespace wt::detail {
namespace {

const SliceAxes* at_word(const void* args, size_t at) {
  u64 word;
  std::memcpy(&word, static_cast<const char*>(args) + at, sizeof word);
  return word ? slices_at(reinterpret_cast<const void*>(word)) : nullptr;
}

bool loops_over(const SliceAxis& a) { return a.level != visible_level(); }

}  // namespace

bool points_into_slices(const void* args, size_t bytes) {
  if (!(mode.slow & kSlowSliced)) return false;
  for (size_t at = 0; at + sizeof(u64) <= bytes; at += sizeof(u64))
    if (const SliceAxes* axes = at_word(args, at))
      for (const SliceAxis& a : *axes)
        if (loops_over(a)) return true;
  return false;
}

SlicedLaunch::SlicedLaunch(const void* args, size_t bytes, const OpInfo* op, const char* contract)
    : op_(op), contract_(contract), slow_before_(mode.slow) {
  for (size_t at = 0; at + sizeof(u64) <= bytes; at += sizeof(u64))
    if (const SliceAxes* axes = at_word(args, at))
      for (const SliceAxis& a : *axes)
        if (loops_over(a)) axes_.merge(a);
  for (size_t at = 0; at + sizeof(u64) <= bytes; at += sizeof(u64)) {
    const SliceAxes* axes = at_word(args, at);
    if (!axes) continue;
    WT_INTERNAL_ASSERT(n_pointers_ < kMost);
    Pointer& p = pointers_[n_pointers_++];
    p.at = u32(at);
    for (int k = 0; k < axes_.n; ++k) {
      const SliceAxis* a = axes->find(axes_.axis[k].level);
      p.step[k] = a ? a->step : 0;
    }
  }
  push_slices({});
  mode.slow &= ~u32(kSlowSliced);
}

SlicedLaunch::~SlicedLaunch() {
  mode.slow = slow_before_;
  pop_slices();
}

i64 SlicedLaunch::step(const void* data, int k) const {
  const SliceAxes* axes = data ? slices_at(data) : nullptr;
  const SliceAxis* a = axes ? axes->find(axes_.axis[k].level) : nullptr;
  return a ? a->step : 0;
}

void SlicedLaunch::check_written(const View& out) const {
  if (out && out.numel() > 0) check_written(out.data);
}
void SlicedLaunch::check_written(const void* out) const {
  if (!out) return;
  const SliceAxes* axes = slices_at(out);
  for (const SliceAxis& a : axes_)
    if (!axes || !axes->find(a.level))
      throw UsageError(
          str("[", op_ ? op_->name : contract_,
              "] would write every slice of vmap() into one tensor", at_line(),
              "\n  Try the operator that makes a new tensor, or a clone() of what vmap "
              "maps over"));
}

bool SlicedLaunch::lead(View& v, Geometry& g, int ndim) const {
  const int n = axes_.n;
  if (ndim == 0) ndim = 1;  // a scalar's axis 0, which a contract may name
  const int missing = ndim - v.ndim();
  if (n + ndim > kMaxDims || missing < 0) return false;
  const Geometry& from = *v.geometry;
  const i64 item = item_size(from.dtype);
  g.dtype = from.dtype;
  g.ndim = u8(n + ndim);
  for (int k = 0; k < n; ++k) {
    const i64 bytes = step(v.data, k);
    if (bytes % item != 0) return false;
    g.shape[k] = axes_.axis[k].count;
    g.strides[k] = bytes / item;
  }
  for (int d = 0; d < ndim; ++d) {
    g.shape[n + d] = d < missing ? 1 : from.shape[d - missing];
    g.strides[n + d] = d < missing ? 0 : from.strides[d - missing];
  }
  finish_geometry(g);
  v.geometry = &g;
  return true;
}

void SlicedLaunch::tell_of_loop() const {
  if (axes_.n == 0) return;  // what looked like an address was none
  const char* const name = op_ ? op_->name : contract_;
  warn_once(str("vmap ", name), str("[vmap] ", name, " has no batching rule: its kernel '",
                                    contract_, "' runs once a slice"));
}

bool SlicedLaunch::first() {
  for (int k = 0; k < axes_.n; ++k) {
    index_[k] = 0;
    if (axes_.axis[k].count == 0) return false;
  }
  return true;
}
bool SlicedLaunch::next() {
  for (int k = axes_.n; k-- > 0;) {
    if (++index_[k] < axes_.axis[k].count) return true;
    index_[k] = 0;
  }
  return false;
}
void SlicedLaunch::move(void* copy) const {
  for (int i = 0; i < n_pointers_; ++i) {
    const Pointer& p = pointers_[i];
    char* const word = static_cast<char*>(copy) + p.at;
    u64 address;
    std::memcpy(&address, word, sizeof address);
    for (int k = 0; k < axes_.n; ++k) address += u64(index_[k] * p.step[k]);
    std::memcpy(word, &address, sizeof address);
  }
}

}  // namespace wt::detail
