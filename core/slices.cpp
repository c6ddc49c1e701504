#include "warptape/core/slices.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "warptape/core/at_line.h"
#include "warptape/core/checked.h"
#include "warptape/core/error.h"
#include "warptape/core/str.h"

namespace wt::detail {
namespace {

// Behind a sliced storage: which slices there are, and the memory of all of them.
struct Block {
  SliceAxes axes;
  Storage* memory;
};

// Sliced storages by address, of all threads: a kernel's arguments are pointers.
struct Registry {
  std::mutex mutex;
  std::map<u64, Block*> blocks;  // but for those on meta devices, which have no address
  i64 live = 0;
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}
u64 address(const void* p) { return reinterpret_cast<u64>(p); }

// Until the first one exists, and after the last one, operators do not look for them.
void enter(Block* b) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (b->memory->data) r.blocks.emplace(address(b->memory->data), b);
  ++r.live;
  process_slow.fetch_or(kSlowSlices, std::memory_order_relaxed);
}
void free_block(void* argument) {
  auto* b = static_cast<Block*>(argument);
  Registry& r = registry();
  {
    const std::lock_guard lock(r.mutex);
    if (b->memory->data) r.blocks.erase(address(b->memory->data));
    if (--r.live == 0) process_slow.fetch_and(~u32(kSlowSlices), std::memory_order_relaxed);
  }
  release(b->memory);
  delete b;
}

constinit std::atomic<u64> level_numbers{0};
thread_local std::vector<SliceAxes> pushed;
constinit thread_local SliceLevel* innermost = nullptr;
constinit thread_local u64 visible = 0;

void follow_pushed() {
  u32& slow = thread_memory.slow;
  if (!pushed.empty() && pushed.back().n)
    slow |= kSlowInSlices;
  else
    slow &= ~u32(kSlowInSlices);
}

const Block* block_of(const Storage* s) {
  return static_cast<const Block*>(adopted_argument(s, free_block));
}

}  // namespace

void SliceAxes::merge(const SliceAxis& a) {
  if (find(a.level)) return;
  if (n == kMaxSliceLevels)
    throw UsageError(str("[vmap] at most ", kMaxSliceLevels, " levels may be nested", at_line()));
  int i = n++;
  for (; i > 0 && axis[i - 1].level > a.level; --i) axis[i] = axis[i - 1];
  axis[i] = a;
}

const SliceAxes* slices_of(const Storage* s) {
  const Block* b = block_of(s);
  return b ? &b->axes : nullptr;
}

const SliceAxes* slices_at(const void* p) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  auto at = r.blocks.upper_bound(address(p));
  if (at == r.blocks.begin()) return nullptr;
  const Block* b = (--at)->second;
  return address(p) - at->first < u64(b->memory->bytes) ? &b->axes : nullptr;
}

void push_slices(const SliceAxes& axes) {
  pushed.push_back(axes);
  follow_pushed();
}
void pop_slices() noexcept {
  pushed.pop_back();
  follow_pushed();
}

SliceScope::SliceScope(const SliceAxes& axes) { push_slices(axes); }
SliceScope::~SliceScope() { pop_slices(); }

Storage* allocate_sliced(Device d, i64 bytes) {
  SliceAxes axes = pushed.back();
  i64 total = bytes;
  for (int i = axes.n; i-- > 0;) {
    axes.axis[i].step = total;
    if (!mul_fits(total, axes.axis[i].count, total))
      throw ShapeError(str("[vmap] ", axes.axis[i].count, " slices of ", axes.axis[i].step,
                           " bytes overflow 64 bits", at_line()));
  }
  const SliceScope plain({});
  auto* b = new Block{axes, nullptr};
  try {
    // Of no slices, or of slices without elements, too: pointers lead somewhere of their own.
    b->memory = allocate(d, std::max({total, bytes, i64{1}}));
    enter(b);
  } catch (...) {
    if (b->memory) release(b->memory);
    delete b;
    throw;
  }
  Storage* s = adopt_memory(d, b->memory->data, bytes, free_block, b);
  --thread_memory.live_storages;  // which allocate() counts
  return s;
}

SliceLevel::SliceLevel(i64 count, SliceDraws draws)
    : axis_{++level_numbers, count, 0, mode.sequence},
      outer_(innermost),
      slow_before_(mode.slow),
      draws_(draws) {
  int open = 1;
  for (const SliceLevel* l = outer_; l; l = l->outer_) ++open;
  if (open > kMaxSliceLevels)
    throw UsageError(str("[vmap] at most ", kMaxSliceLevels, " levels may be nested", at_line()));
  push_slices({});
  innermost = this;
  mode.slow |= kSlowSliced;
}
SliceLevel::~SliceLevel() {
  mode.slow = slow_before_;
  innermost = outer_;
  pop_slices();
}

bool is_open_level(u64 level) {
  for (const SliceLevel* l = innermost; l; l = l->outer_)
    if (l->axis_.level == level) return true;
  return false;
}

void check_slice_draws() {
  if (!innermost || innermost->draws() == SliceDraws::same) return;
  throw UsageError(str("[", mode.op ? mode.op->name : "random",
                       "] draws random numbers inside of vmap()", at_line(),
                       "\n  Try vmap(f, {.randomness = Randomness::same}), or drawing outside and "
                       "mapping over the draws"));
}

VisibleLevel::VisibleLevel(u64 level) : before_(visible) { visible = level; }
VisibleLevel::~VisibleLevel() { visible = before_; }
u64 visible_level() { return visible; }

TensorImpl* every_slice(const TensorImpl* p) {
  const Block& b = *block_of(p->storage);
  const i64 item = item_size(dtype_of(p));
  if (b.axes.n + p->geometry.ndim > kMaxDims)
    throw ShapeError(str("[vmap] the slices of ", Shape(p->geometry.shape, p->geometry.ndim),
                         " have too many dimensions together", at_line()));
  TensorImpl* all = new_impl();
  all->key = p->key;
  all->storage = b.memory;
  retain(all->storage);
  all->data = p->data;
  all->cell = &b.memory->cell;
  Geometry& g = all->geometry;
  g.dtype = dtype_of(p);
  g.ndim = u8(b.axes.n + p->geometry.ndim);
  for (int k = 0; k < b.axes.n; ++k)
    g.shape[k] = b.axes.axis[k].count, g.strides[k] = b.axes.axis[k].step / item;
  for (int d = 0; d < p->geometry.ndim; ++d) {
    g.shape[b.axes.n + d] = p->geometry.shape[d];
    g.strides[b.axes.n + d] = p->geometry.strides[d];
  }
  finish_geometry(g);
  return all;
}
Unsliced::Unsliced() : slow_before_(mode.slow) {
  push_slices({});
  mode.slow &= ~u32(kSlowSliced);
}
Unsliced::~Unsliced() {
  mode.slow = slow_before_;
  pop_slices();
}

void refuse_slices(const char* what, const TensorImpl* p, Frame at) {
  if (!slices_of(p)) return;
  throw UsageError(str("[", what, "] inside of vmap() values can be neither read nor moved: ",
                       Shape(p->geometry.shape, p->geometry.ndim), " ", dtype_name(dtype_of(p)),
                       " has those of all slices\n  at ", describe_place(at),
                       "\n  Try where() instead of a branch on values"));
}

}  // namespace wt::detail
