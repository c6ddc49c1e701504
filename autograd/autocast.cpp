#include "warptape/autograd/autocast.h"

#include <unordered_map>

#include "warptape/autograd/live_graph.h"
#include "warptape/autograd/node.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/stored_cast.h"
#include "warptape/autograd/ops/shape.h"

namespace wt {

// 16-bit copies of leaves, valid for one version of each.
class AutocastCache {
 public:
  Tensor cast(TensorImpl* leaf, DType t) {
    Entry& e = entries_[leaf];
    // A copy made without recording has no way back to the leaf.
    const bool valid = e.cast.defined() && e.version == leaf->cell->version &&
                       e.cast.dtype() == t && e.cast.requires_grad() == mode.grad;
    if (!valid) {
      Tensor fresh = lowered(Tensor(detail::retained(leaf)), t);
      e = {Tensor(detail::retained(leaf)), fresh, leaf->cell->version};
    }
    return e.cast;
  }
  int held(const Storage* s) const {
    int n = 0;
    for (const auto& [leaf, e] : entries_)
      n += (leaf->storage == s) + (e.cast.defined() && e.cast.impl()->storage == s);
    return n;
  }

 private:
  // By an optimizer's copy, if it keeps one that is of the leaf's present values.
  static Tensor lowered(const Tensor& leaf, DType t) {
    const Leaf* l = leaf_of(leaf.impl());
    if (l->half && dtype_of(l->half) == t && l->half_version == leaf.impl()->cell->version)
      return detail::to_dtype_stored(leaf, l->half);
    return to_dtype(leaf, t);
  }

  struct Entry {
    Tensor leaf{}, cast{};  // the leaf is held: another tensor could get its address
    u32 version = 0;
  };
  std::unordered_map<TensorImpl*, Entry> entries_;
};

AutocastScope::AutocastScope(DType t, bool on)
    : before_(mode.autocast_dtype), on_before_((mode.slow & kSlowAutocast) != 0) {
  if (!is_half(t)) throw DtypeError(str("[autocast] lowers to f16 or bf16, got ", dtype_name(t)));
  if (t == DType::f16 && on && mode.unscaled_step)
    throw UsageError(
        "[autocast] f16 inside a TrainStep that does not scale the loss: gradients below 6e-8 "
        "would become zero\n  Try TrainStep's {.precision = f16}, which scales, or bf16");
  if (!mode.autocast_cache) {
    cache_ = std::make_unique<AutocastCache>();
    mode.autocast_cache = cache_.get();
  }
  mode.autocast_dtype = t;
  mode.slow = on ? mode.slow | kSlowAutocast : mode.slow & ~u32(kSlowAutocast);
}

AutocastScope::~AutocastScope() {
  mode.autocast_dtype = before_;
  mode.slow = on_before_ ? mode.slow | kSlowAutocast : mode.slow & ~u32(kSlowAutocast);
  if (cache_) mode.autocast_cache = nullptr;
}

namespace {

bool takes_part(const In& x) {
  const DType t = dtype_of(x.impl());
  return is_floating(t) && computes(t) && t != DType::f64;
}

void cast_operand(const In& x, DType t) {
  TensorImpl* p = x.impl();
  if (!takes_part(x) || dtype_of(p) == t) return;
  const FrameScope frame(x.frame());
  if (mode.autocast_cache && is_half(t) && leaf_of(p) && !(mode.slow & kSlowInference))
    x.replace(mode.autocast_cache->cast(p, t));
  else
    x.replace(to_dtype(Tensor(detail::retained(p)), t));
}

}  // namespace

int detail::held_by_autocast(const Storage* s) {
  return mode.autocast_cache ? mode.autocast_cache->held(s) : 0;
}

namespace detail {

void autocast_operands(const OpInfo& info, const In* const* in, int n) {
  DType t = DType::f32;
  if (info.autocast == Autocast::none) return;
  if (info.autocast == Autocast::lower) t = mode.autocast_dtype;
  if (info.autocast == Autocast::promote) {
    bool any = false;
    for (int i = 0; i < n; ++i) {
      if (!takes_part(*in[i])) continue;
      t = any ? promote(t, dtype_of(in[i]->impl())) : dtype_of(in[i]->impl());
      any = true;
    }
    if (!any) return;
  }
  for (int i = 0; i < n; ++i) cast_operand(*in[i], t);
}

}  // namespace detail
}  // namespace wt
