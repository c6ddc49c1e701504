// Offload and bit mask; recompute is in checkpoint.cpp, invert in custom.cpp.
#include "warptape/autograd/save_policy.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/bit_mask.h"
#include "warptape/kernels/run.h"

namespace wt::detail {
namespace {

// A copy in host memory, which comes back when it is needed.
struct OffloadedSlot final : PackedSlot {
  Device device;
  Tensor host;
  OffloadedSlot(Device d, Tensor t) : device(d), host(std::move(t)) {}
  Tensor unpack(Backward&) override {
    const CategoryScope scope(Category::activation);
    return copy_async(host, device);
  }
};

// One bit an element: 1 where the gradient passes.
struct MaskedSlot final : PackedSlot {
  Tensor bits;
  Shape shape;
  DType dtype;
  MaskedSlot(Tensor b, const Shape& s, DType t) : bits(std::move(b)), shape(s), dtype(t) {}
  Tensor unpack(Backward& g) override {
    Tensor t = empty(shape, {.dtype = dtype, .device = bits.device()});
    run(BitUnpackArgs{view_of(t.impl()), view_of(bits.impl())}, g.launch());
    return t;
  }
};

std::unique_ptr<PackedSlot> offload(const TensorImpl* p) {
  const Device d = device_of(p);
  // On cpu it is where it would go. What is not dense would come back with other strides.
  if (d == Device::cpu() || d.is_meta || !p->geometry.dense) return nullptr;
  const Tensor alias(alias_of(p));
  return std::make_unique<OffloadedSlot>(d, copy_async(alias, Device::cpu()));
}

std::unique_ptr<PackedSlot> bit_mask(const OpInfo* op, const SavedSlot& slot) {
  const TensorImpl* p = slot.tensor;
  if (!op->sign_of_output || slot.edge != kSelf || !is_floating(dtype_of(p))) return nullptr;
  const Tensor dense = contiguous(Tensor(alias_of(p)));
  Tensor bits = empty({(p->geometry.numel + 7) / 8}, {.dtype = DType::u8, .device = device_of(p)});
  run(BitPackArgs{view_of(bits.impl()), view_of(dense.impl())},
      Launch{op, mode.native_stream, nullptr, device_of(p)});
  return std::make_unique<MaskedSlot>(std::move(bits), shape_of(p->geometry), dtype_of(p));
}

}  // namespace

bool can_pack(const SavedSlot& s) {
  if ((s.kind != SlotKind::owned && s.kind != SlotKind::raw_output) || !s.tensor) return false;
  return s.kind == SlotKind::raw_output || !s.tensor->node || !s.tensor->node->is_leaf();
}

void pack(Node* n, SavedSlot& s, std::unique_ptr<PackedSlot> form) {
  TensorImpl* p = s.tensor;
  const bool output = s.kind == SlotKind::raw_output;
  s.packed = form.release();
  s.kind = SlotKind::packed;
  if (!output) return release(p);
  for (u32 i = 0; i < n->n_slots; ++i)
    if (n->slots[i].kind == SlotKind::raw_output && n->slots[i].tensor == p) return;
  p->flags &= u8(~kSavedOutput);
}

void pack_slots(Node* n) noexcept {
  if (mode.save == SavePolicy::keep) return;
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
      if (mode.save == SavePolicy::recompute) {
        recompute_slot(n, s);
        continue;
      }
      if (!can_pack(s)) continue;
      std::unique_ptr<PackedSlot> form;
      if (mode.save == SavePolicy::offload) form = offload(s.tensor);
      if (mode.save == SavePolicy::bit_mask) form = bit_mask(n->info, s);
      if (form) pack(n, s, std::move(form));
    } catch (...) {  // kept: the operator itself has succeeded
    }
  }
}

}  // namespace wt::detail
