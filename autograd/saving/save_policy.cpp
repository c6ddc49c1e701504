// Offload and bit mask; recompute is in save_recompute.cpp and checkpoint.cpp, invert in
// save_invert.cpp and custom.cpp.
#include "warptape/autograd/save_policy.h"

#include <mutex>
#include <optional>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_saving.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/bit_gate.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/factories.h"
#include "warptape/core/slices.h"
#include "warptape/core/storage_companion.h"
#include "warptape/kernels/bit_mask.h"
#include "warptape/kernels/run.h"

namespace wt::detail {
namespace {

// A copy in host memory, which comes back when it is needed. Slots of several nodes share it.
using HostCopy = std::shared_ptr<const Tensor>;
struct OffloadedSlot final : PackedSlot {
  Device device;
  HostCopy host;
  bool shared;
  OffloadedSlot(Device d, HostCopy h, bool s) : device(d), host(std::move(h)), shared(s) {}
  bool counted() const override { return shared; }
  Tensor unpack(Backward&) override {
    const CategoryScope scope(Category::activation);
    return copy_async(*host, device);
  }
};

// The copies of a storage's tensors that slots still hold: what a second node saves of them is
// there already. Dies with the storage.
struct HostCopies {
  struct Of {
    void* data;
    u32 version;
    Geometry geometry;
    std::weak_ptr<const Tensor> host;
  };
  std::vector<Of> list;

  static void destroy(void* p) { delete static_cast<HostCopies*>(p); }
  static HostCopies& of(Storage* s) {
    if (void* have = companion_of(s, destroy)) return *static_cast<HostCopies*>(have);
    auto made = std::make_unique<HostCopies>();
    set_companion(s, made.get(), destroy);
    return *made.release();
  }
  HostCopy find(const TensorImpl* p) const {
    for (const Of& e : list)
      if (e.data == p->data && e.version == p->cell->version && e.geometry.dtype == dtype_of(p) &&
          same_shape(e.geometry, p->geometry))
        if (HostCopy host = e.host.lock()) return host;
    return nullptr;
  }
  void add(const TensorImpl* p, const HostCopy& host) {
    std::erase_if(list, [](const Of& e) { return e.host.expired(); });
    list.push_back({p->data, p->cell->version, p->geometry, host});
  }
};

// One bit an element: 1 where the gradient passes.
struct MaskedSlot final : PackedSlot {
  SignBits sign;
  explicit MaskedSlot(SignBits s) : sign(std::move(s)) {}
  const SignBits* sign_bits() const override { return &sign; }
  // For custom operators, whose backward reads a tensor: 1 where the bit is set, else 0.
  Tensor unpack(Backward& g) override {
    const Tensor one = ones({}, {.dtype = sign.order.dtype, .device = sign.bits.device()});
    return bit_gate(*g.node->info, one.expand(shape_of(sign.order)), sign, {});
  }
};

std::unique_ptr<PackedSlot> offload(const TensorImpl* p) {
  const Device d = device_of(p);
  // On cpu it is where it would go. What is not dense would come back with other strides, and a
  // slice of vmap() alone.
  if (d.kind == DeviceKind::cpu || !p->geometry.dense || slices_of(p)) return nullptr;
  const Device host_of = d.is_meta ? Device::meta() : Device::cpu();
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  HostCopies& copies = HostCopies::of(p->storage);
  HostCopy host = copies.find(p);
  const bool shared = host != nullptr;
  if (!shared) {
    host = std::make_shared<Tensor>(copy_async(Tensor(alias_of(p)), host_of));
    copies.add(p, host);
  }
  return std::make_unique<OffloadedSlot>(d, std::move(host), shared);
}

std::unique_ptr<PackedSlot> bit_mask(const OpInfo* op, const SavedSlot& slot) {
  const TensorImpl* p = slot.tensor;
  if (!op->sign_of_output || slot.edge != kSelf || !is_floating(dtype_of(p))) return nullptr;
  Tensor held(alias_of(p));
  if (!is_permuted_dense(p->geometry)) held = contiguous(held);
  Tensor bits = empty({(p->geometry.numel + 7) / 8}, {.dtype = DType::u8, .device = device_of(p)});
  const OpSaving* saving = saving_of(op);
  const bool nan = !saving || saving->nan_is_above;
  run(BitPackArgs{view_of(bits.impl()), view_of(held.impl()), 0, nan},
      Launch{op, mode.native_stream, nullptr, device_of(p)});
  return std::make_unique<MaskedSlot>(SignBits{std::move(bits), held.impl()->geometry});
}

// --- the gradient by the bits ---

struct GateAttributes {
  BitGate gate;
  Geometry order;
};

void bit_gate_backward(Backward& g) {
  const auto& a = g.attribute<GateAttributes>();
  const SignBits sign{g.saved(0), a.order};
  g.put(0, bit_gate(*g.node->info, g.take_grad(), sign, a.gate));
}

bool same_order(const Geometry& a, const Geometry& b) {
  for (int d = 0; d < a.ndim; ++d)
    if (a.shape[d] != 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}
// A copy that lies in `order`.
Tensor copy_in_order(const TensorImpl* p, const Geometry& order) {
  Tensor copy(new_contiguous(order.shape, order.ndim, dtype_of(p), device_of(p)));
  Geometry& g = copy.impl()->geometry;
  for (int d = 0; d < g.ndim; ++d) g.strides[d] = order.strides[d];
  finish_geometry(g);
  copy_into(copy.impl(), p);
  return copy;
}

// The bits are no operand, whose slices the scope would know.
SliceAxes slices_of_result(const TensorImpl* gy, const TensorImpl* bits) {
  SliceAxes axes;
  if (const SliceAxes* a = slices_of(gy)) axes.merge(*a);
  if (const SliceAxes* a = slices_of(bits)) axes.merge(*a);
  return axes;
}

}  // namespace

Tensor bit_gate(const OpInfo& info, const In& gy, const SignBits& sign, const BitGate& gate) {
  OpScope s(info, gy);
  std::optional<SliceScope> slices;
  if (mode.slow & kSlowSliced) slices.emplace(slices_of_result(s.impl(0), sign.bits.impl()));
  if (s.recording()) s.save_extra(Tensor(alias_of(sign.bits.impl())));
  const bool there = same_order(s.geometry(0), sign.order);
  Tensor copy = there ? Tensor() : copy_in_order(s.impl(0), sign.order);
  const View in = there ? s.view(0) : view_of(copy.impl());
  Result out = there ? s.result_in_order() : OpScope::adopt(std::move(copy));
  s.record(bit_gate_backward);
  s.set_attribute(GateAttributes{gate, sign.order});
  run(BitGateArgs{out.view(), in, view_of(sign.bits.impl()), gate.leaky, gate.slope}, s.launch());
  return s.finish(std::move(out));
}

bool can_pack(const SavedSlot& s) {
  if ((s.kind != SlotKind::owned && s.kind != SlotKind::raw_output) || !s.tensor) return false;
  return s.kind == SlotKind::raw_output || !s.tensor->node || !s.tensor->node->is_leaf();
}

namespace {

// The node whose output the slot holds; null: no node made it.
Node* maker_of(Node* n, const SavedSlot& s) {
  return s.edge == kSelf ? n : s.edge == kNoEdge ? nullptr : n->edges[s.edge].node;
}
bool is_masked(const Node* maker) {
  for (u32 i = 0; i < maker->n_slots; ++i) {
    const SavedSlot& s = maker->slots[i];
    if (s.edge == kSelf && s.kind == SlotKind::packed && s.packed && s.packed->sign_bits())
      return true;
  }
  return false;
}
i64 bytes_of(const TensorImpl* p) { return p->geometry.numel * item_size(dtype_of(p)); }
i64 spared_by_bits(const TensorImpl* p) { return bytes_of(p) - (p->geometry.numel + 7) / 8; }

void count_packed(Node* n, const SavedSlot& s, memory::SavingRule rule) {
  Node* maker = maker_of(n, s);
  if (maker && maker->flags & kUnderPolicy) {
    if (maker->policy & kCounted) return;  // with its maker's, or another reader's
    maker->policy |= kCounted;
  }
  const bool bits = rule == memory::SavingRule::bit_mask;
  count_saved(rule, bits ? spared_by_bits(s.tensor) : bytes_of(s.tensor));
}
// The slot keeps what its maker holds as bits: these spared nothing.
void count_kept(Node* n, const SavedSlot& s) {
  Node* maker = maker_of(n, s);
  if (!maker || maker == n || !(maker->flags & kUnderPolicy) || !(maker->policy & kCounted) ||
      !is_masked(maker))
    return;
  maker->policy &= u8(~kCounted);
  count_saved(memory::SavingRule::bit_mask, -spared_by_bits(s.tensor), -1);
}

}  // namespace

void pack(Node* n, SavedSlot& s, std::unique_ptr<PackedSlot> form, memory::SavingRule rule) {
  if (!form->counted()) count_packed(n, s, rule);
  replace_by(n, s, std::move(form));
}

void replace_by(Node* n, SavedSlot& s, std::unique_ptr<PackedSlot> form) {
  TensorImpl* p = s.tensor;
  const bool output = s.kind == SlotKind::raw_output;
  if (mode.slow & kSlowSliced)
    if (const SliceAxes* axes = slices_of(p)) form->slices = std::make_unique<SliceAxes>(*axes);
  s.packed = form.release();
  s.kind = SlotKind::packed;
  if (!output) return release(p);
  for (u32 i = 0; i < n->n_slots; ++i)
    if (n->slots[i].kind == SlotKind::raw_output && n->slots[i].tensor == p) return;
  p->flags &= u8(~kSavedOutput);
}

// The form of a slot by the mode's policy; null: it is kept.
static std::unique_ptr<PackedSlot> form_of(Node* n, const SavedSlot& s, const TensorImpl* out) {
  switch (mode.save) {
    case SavePolicy::offload:
      return offload(s.tensor);
    case SavePolicy::bit_mask:
      return bit_mask(n->info, s);
    case SavePolicy::recompute:
      if (s.edge == kSelf) return bit_mask(n->info, s);
      // What an operator in place saves of its operand is a copy, with a version of its own.
      if (s.edge == kNoEdge || n->info->in_place) return nullptr;
      return recomputed(n->edges[s.edge]);
    case SavePolicy::invert:
      if (s.edge != 0 || n->info->in_place) return nullptr;
      return inverted(*n->info, s.tensor, out, out->cell->version);
    default:
      return nullptr;
  }
}

std::unique_ptr<PackedSlot> form_of_overwritten(const OpInfo& op, const TensorImpl* x) {
  if (!(mode.slow & kSlowSaving) || mode.recomputation) return nullptr;
  if (mode.save == SavePolicy::recompute) return recomputed({x->node, x->output_index});
  if (mode.save == SavePolicy::invert) return inverted(op, x, x, x->cell->version + 1);
  return nullptr;
}
memory::SavingRule rule_of_overwritten() {
  return mode.save == SavePolicy::invert ? memory::SavingRule::invert
                                         : memory::SavingRule::recompute;
}

// Its name in memory::saved_by_rule().
static memory::SavingRule rule_of(const SavedSlot& s) {
  if (mode.save == SavePolicy::offload) return memory::SavingRule::offload;
  if (mode.save == SavePolicy::invert) return memory::SavingRule::invert;
  return s.edge == kSelf ? memory::SavingRule::bit_mask : memory::SavingRule::recompute;
}

void pack_slots(Node* n, const TensorImpl* out) noexcept {
  if (mode.save == SavePolicy::keep) return;
  n->flags |= kUnderPolicy;
  n->policy = keeps_recipes() ? kRepeats : 0;
  n->made = out->cell->version;
  struct Plain {  // the policy's own work is recorded nowhere
    const Mode before = mode;
    Plain() {
      mode.grad = false;
      mode.slow &= ~u32(kSlowSaving | kSlowAutocast);
    }
    ~Plain() {
      const u64 sequence = mode.sequence;
      mode = before;
      mode.sequence = sequence;
    }
  } plain;
  for (u32 i = 0; i < n->n_slots; ++i) {
    SavedSlot& s = n->slots[i];
    try {
      if (mode.recomputation && mode.save == SavePolicy::recompute) {
        recompute_slot(n, s);
        continue;
      }
      if (!can_pack(s)) continue;
      if (std::unique_ptr<PackedSlot> form = form_of(n, s, out))
        pack(n, s, std::move(form), rule_of(s));
      else
        count_kept(n, s);
    } catch (...) {  // kept: the operator itself has succeeded
    }
  }
}

}  // namespace wt::detail
