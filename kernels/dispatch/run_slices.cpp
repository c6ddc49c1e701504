#include "warptape/kernels/dispatch/run_slices.h"

#include <cstring>

#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/str.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/dispatch/run_first_use_lists.h"

namespace wt::detail {
namespace {

const SliceAxes* at_word(const void* args, size_t at) {
  u64 word;
  std::memcpy(&word, static_cast<const char*>(args) + at, sizeof word);
  return word ? slices_at(reinterpret_cast<const void*>(word)) : nullptr;
}

bool loops_over(const SliceAxis& a) { return a.level != visible_level(); }

// Bytes in the arguments at which the pointers to what the launch touches stand.
std::vector<size_t> places_of(const Touched& t, const void* args, size_t bytes) {
  std::vector<size_t> places;
  for (const void* p : t.pointers) {
    const u64 at = reinterpret_cast<u64>(p) - reinterpret_cast<u64>(args);
    if (at < bytes) places.push_back(at);
  }
  return places;
}

}  // namespace

bool points_into_slices(const void* args, size_t bytes) {
  if (!(mode.slow & kSlowSliced)) return false;
  for (size_t at = 0; at + sizeof(u64) <= bytes; at += sizeof(u64))
    if (const SliceAxes* axes = at_word(args, at))
      for (const SliceAxis& a : *axes)
        if (loops_over(a)) return true;
  return false;
}

SlicedLaunch::SlicedLaunch(void* args, size_t bytes, const OpInfo* op, const char* contract)
    : op_(op), contract_(contract) {
  const ListTouched list = touched_by(contract);
  if (!list)
    throw NotAvailable(str("[", name(), "] vmap() does not know what the kernel '", contract_,
                           "' touches", at_line(),
                           "\n  Try a line for it in kernels/dispatch/run_operands.h"));
  Touched touched;
  list(args, touched);
  const std::vector<size_t> places = places_of(touched, args, bytes);
  for (const size_t at : places)
    if (const SliceAxes* axes = at_word(args, at))
      for (const SliceAxis& a : *axes)
        if (loops_over(a)) axes_.merge(a);
  for (const size_t at : places) {
    const SliceAxes* axes = at_word(args, at);
    if (!axes) continue;
    Pointer& p = pointers_.emplace_back(Pointer{at, {}});
    for (int k = 0; k < axes_.n; ++k)
      if (const SliceAxis* a = axes->find(axes_.axis[k].level)) p.step[k] = a->step;
  }
  for (const Touched::Block& b : touched.outs) check_written(b.data);
}

i64 SlicedLaunch::step(const void* data, int k) const {
  const SliceAxes* axes = data ? slices_at(data) : nullptr;
  const SliceAxis* a = axes ? axes->find(axes_.axis[k].level) : nullptr;
  return a ? a->step : 0;
}

void SlicedLaunch::check_written(const void* out) const {
  const SliceAxes* axes = slices_at(out);
  for (const SliceAxis& a : axes_)
    if (!axes || !axes->find(a.level))
      throw UsageError(str("[", name(), "] would write every slice of vmap() into one tensor",
                           at_line(),
                           "\n  Try the operator that makes a new tensor, or a clone() of what "
                           "vmap maps over"));
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
  warn_once(str("vmap ", name()), str("[vmap] ", name(), " has no batching rule: its kernel '",
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
  for (const Pointer& p : pointers_) {
    char* const word = static_cast<char*>(copy) + p.at;
    u64 address;
    std::memcpy(&address, word, sizeof address);
    for (int k = 0; k < axes_.n; ++k) address += u64(index_[k] * p.step[k]);
    std::memcpy(word, &address, sizeof address);
  }
}

}  // namespace wt::detail
