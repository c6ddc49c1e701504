// Where an optimizer keeps parameters, gradients and state: arenas. Internal.
//
// One arena a dtype and group: parameters in the order of their registration, each at a multiple of
// 256 bytes, gaps zero; gradients and each state under the same offsets. A step is then one kernel
// over a flat range. Handles keep their identity: a tensor is rebound to its slot, a leaf's
// gradient is its slot, each a root with a version of its own.
//
// Where ranks share the state (optim/sharding.h), it has memory for this rank's pieces alone, one
// after the other; so have gradients in parts, whose slots are lent memory for a backward.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "warptape/autograd/node.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/nn/module.h"
#include "warptape/optim/sharding.h"

namespace wt {
struct Cohort;  // kernels/optim_step.h
}

namespace wt::optim::detail {

// A reference to a storage.
class StorageRef {
 public:
  StorageRef() = default;
  explicit StorageRef(Storage* owned) : s_(owned) {}
  StorageRef(StorageRef&& o) noexcept : s_(std::exchange(o.s_, nullptr)) {}
  StorageRef& operator=(StorageRef&& o) noexcept {
    std::swap(s_, o.s_);
    return *this;
  }
  ~StorageRef() {
    if (s_) release(s_);
  }
  Storage* get() const { return s_; }
  Storage* operator->() const { return s_; }
  explicit operator bool() const { return s_ != nullptr; }

 private:
  Storage* s_ = nullptr;
};
// Zeroed memory of category c.
StorageRef zeroed(Device d, i64 bytes, Category c);
// A tensor over part of a storage, not counted as a view: for state and device scalars.
Tensor tensor_over(Storage* s, i64 byte_offset, const Geometry& g);
Tensor scalar_over(Storage* s, i64 byte_offset, DType t);
Tensor flat_over(Storage* s, i64 byte_offset, i64 count, DType t);  // [count]

// One parameter that an optimizer is given. `seats` are the module's slots it sits in (several if
// it is tied); they are marked held.
struct Entry {
  std::string name;
  Tensor tensor;
  std::vector<std::shared_ptr<nn::detail::ParamSlot>> seats{};
  int group = 0;
};
// Parameters of a module that require grad: registration order, tied ones once under their first
// name.
std::vector<Entry> trainable(const nn::ModuleBase& m);
// The given ones. Throws UsageError for a tensor that is no leaf that requires grad.
std::vector<Entry> leaves(std::span<const nn::NamedTensor> parameters);

// Throws UsageError unless `values` are of the optimizer `kind` and fit `mine` in names and shapes.
void check_state(const char* kind, const std::vector<nn::NamedTensor>& mine,
                 const std::vector<nn::NamedTensor>& values);
// A count among `values`. Throws UsageError, naming it, for what no count can be: of a floating
// dtype, negative, or above 2^62, where counting on would overflow.
i64 count_of(const std::vector<nn::NamedTensor>& values, const std::string& name);

inline constexpr i64 kSlotBytes = 256;
inline constexpr int kMaxStates = 3;

struct Slot {
  Entry entry;
  // Over the arena: the leaf's own, unless somebody moved the parameter. Of gradients in parts
  // undefined but while memory is lent.
  Tensor grad;
  i64 offset;                   // in elements
  i64 padded;                   // elements up to the next slot
  i64 order;                    // of registration, over all arenas
  VersionCell* cell = nullptr;  // the gradient's
  Tensor half{};                // over Arena::half, if there is one
  u32 stepped = ~0u;            // the gradient's version when a step last used it
  u32 backwards = 0;            // Leaf::backwards then
};

// Elements whose state is kept here, and where it begins in the state's memory.
struct Piece {
  i64 begin, count, state;
};

struct Arena {
  DType dtype = DType::f32;
  int group = 0;
  i64 elements = 0;
  StorageRef param, grad, state[kMaxStates];
  StorageRef average;  // of the weights, if the optimizer keeps one
  StorageRef half;     // the weights in 16 bits, if operators are to find them so
  DType half_dtype = DType::f16;
  std::vector<Slot> slots;
  std::vector<Piece> pieces;            // one, the whole arena, unless the state is sharded
  std::vector<Sharding::Range> ranges;  // whose pieces these are, one each
  bool parts_gradients = false;         // `grad` lies as the state does: pieces alone

  i64 state_elements() const { return pieces.back().state + pieces.back().count; }
  void* at(const StorageRef& s, i64 element) const {
    return s->data ? static_cast<char*>(s->data) + element * item_size(dtype) : nullptr;
  }
  // Of an element that lies at `state` in the state's memory.
  void* grad_at(i64 element, i64 state) const {
    return at(grad, parts_gradients ? state : element);
  }
};

// A maximal range of written slots: what a step, a norm or a reduction works on.
struct Run {
  const Arena* arena;
  i64 begin, count;  // in elements
  i64 state;         // where the range begins in the state's memory; of steps() alone
  // What its parameters' steps are counted by, where some have missed steps: while they are
  // applied.
  const Cohort* cohorts = nullptr;
  i64 n_cohorts = 0;

  void* grad() const { return arena->grad_at(begin, state); }
};

// What is known of the written gradients together: which steps they allow.
struct Written {
  const Slot* first = nullptr;  // null: there are none
  const Slot* other = nullptr;  // one with another scaler than the first
  const Slot* from_f16 = nullptr;
  bool fresh = false;  // some backward came since the last step
  u32 backwards = 0;   // how many came since the last step or zero_grad()
};

class Arenas {
 public:
  // Lays the parameters out and takes them over from an earlier optimizer. Throws UsageError (none,
  // several devices, a dtype other than f32 and f64), InplaceError (a live view), OutOfMemory; then
  // nothing has changed. n_states: of each group; a single number is that of all.
  Arenas(std::vector<Entry> entries, std::vector<int> n_states);
  ~Arenas();
  Arenas(const Arenas&) = delete;
  Arenas& operator=(const Arenas&) = delete;

  // Follows parameters that moved (Module::to): new arenas on their device with the state copied.
  // True when something was done. Throws UsageError when another optimizer took them over.
  bool sync() {
    for (const Arena& a : arenas_)
      for (const Slot& s : a.slots)
        if (!in_place(a, s)) [[unlikely]]
          return rebuild();
    return false;
  }
  // After sync(): the ranges of written slots. Throws NumericError for a gradient that a backward
  // left invalid.
  const std::vector<Run>& collect();
  const std::vector<Run>& runs() const { return runs_; }
  // Those parts of them whose state is kept here.
  const std::vector<Run>& steps() const { return sharding_ ? steps_ : runs_; }
  const Written& written() const { return written_; }
  // unscale_() has divided the written gradients by their scale.
  void mark_unscaled() noexcept;
  void zero_grad() noexcept;
  // Backwards whose gradients no step has used.
  u32 pending_backwards() const;
  // Zeros in every written slot, which stays written.
  void fill_grad_zero();
  // From here on state is kept for the pieces alone that `s` names; null: for all. What was there
  // is kept, as far as it is still kept. Throws OutOfMemory, and UsageError for gradients of this
  // rank alone where they are to be kept in parts; then nothing has changed.
  void shard(std::shared_ptr<Sharding> s);
  Sharding* sharding() const { return sharding_.get(); }
  bool parts_gradients() const { return arenas_.front().parts_gradients; }
  // Of such: a slot's gradient lies in `memory` until it is taken back. A leaf that has written it
  // before adds to what is there.
  void lend_gradient(const Slot& s, Storage* memory, i64 byte_offset);
  void take_back_gradient(const Slot& s) noexcept;
  // Of the gradients that are kept here: the first one with inf or NaN. Waits for the device.
  std::string first_non_finite() const;
  // The whole of state k, from all ranks, in the host's memory; null on ranks that do not want it
  // here. Sharded state alone.
  StorageRef gather_state(const Arena& a, int k, bool here) const;
  // This rank's pieces of it, from a whole one.
  void take_state(const Arena& a, int k, const Storage& whole);
  // A 1-d tensor over all of such memory.
  static Tensor flat(const Arena& a, Storage* memory, DType t);

  // A copy of the weights in every arena's `average`. Throws OutOfMemory; then nothing has changed.
  void add_average();
  // Keeps a 16-bit copy of every f32 parameter for autocast, and brings those up to date that are
  // not of their parameter's present values. Throws OutOfMemory; then nothing has changed.
  void keep_half(DType t);
  bool has_average() const { return static_cast<bool>(arenas_.front().average); }
  // Goes up when memory has moved or been added: what has its addresses is of the past.
  u64 generation() const { return generation_; }
  // Which slots a backward has written, a byte each, and what a replayed backward does to them.
  std::vector<char> written_slots() const;
  void wrote_slots(const std::vector<char>& slots, u32 scaler) noexcept;
  // Slots that only another rank's backward reached, zero here: they are stepped as written ones.
  void also_reached(std::span<const char> reached) noexcept;
  // A step wrote the parameters of the collected ranges.
  void bump_versions() noexcept;

  Device device() const { return device_; }
  const std::vector<Arena>& all() const { return arenas_; }
  // By order of registration.
  std::vector<std::pair<const Arena*, const Slot*>> in_order() const;
  // Room that the norm of any set of ranges needs, in doubles: of one rank.
  i64 partials() const;
  // Zero-fills what no backward wrote: before a reduction over whole arenas. Gradients in parts
  // need it not: what is lent is zero.
  void zero_unwritten();

 private:
  static bool in_place(const Arena& a, const Slot& s) {
    const TensorImpl* p = s.entry.tensor.impl();
    const Leaf* l = leaf_of(p);
    return p->storage == a.param.get() && (!l || l->grad == s.grad.impl());
  }
  bool rebuild();
  void cut_steps();
  void lay_out(std::vector<Entry> entries, const std::vector<Arena>* old);
  void check_gradients(const std::vector<Entry>& entries) const;

  int states_of(const Arena& a) const {
    return n_states_[n_states_.size() == 1 ? 0 : size_t(a.group)];
  }

  u64 id_;
  std::vector<int> n_states_;
  u64 generation_ = 0;
  Device device_;
  void attach_half(Arena& a, StorageRef memory, VersionCell* cells, DType t) noexcept;

  std::vector<Arena> arenas_;
  std::shared_ptr<Sharding> sharding_;
  std::vector<Run> runs_, steps_;
  Written written_{};
};

}  // namespace wt::optim::detail
