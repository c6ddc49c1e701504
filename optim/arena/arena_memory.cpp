#include "warptape/optim/arena/arena_memory.h"

#include "warptape/core/memory/copy_bytes.h"

namespace wt::optim::detail {

StorageRef zeroed(Device d, i64 bytes, Category c) {
  const CategoryScope scope(c);
  StorageRef s(allocate(d, bytes));
  if (!d.is_meta) fill_zero(s->data, d, bytes);
  return s;
}

Tensor tensor_over(Storage* s, i64 byte_offset, const Geometry& g) {
  TensorImpl* p = new_impl();
  p->key = tensor_key(g.dtype, s->device);
  p->flags = kArena;
  p->storage = s;
  retain(s);
  p->data = s->data ? static_cast<char*>(s->data) + byte_offset : nullptr;
  p->cell = &s->cell;
  p->geometry = g;
  return Tensor(p);
}

Tensor scalar_over(Storage* s, i64 byte_offset, DType t) {
  Geometry g{};
  set_contiguous(g, nullptr, 0, t);
  return tensor_over(s, byte_offset, g);
}

Tensor flat_over(Storage* s, i64 byte_offset, i64 count, DType t) {
  Geometry g{};
  set_contiguous(g, &count, 1, t);
  return tensor_over(s, byte_offset, g);
}

namespace {

// The block and its cells, behind the storage that shows it.
struct CellBlock {
  Storage* block;
  std::unique_ptr<VersionCell[]> cells;
};

}  // namespace

CellStorage zeroed_with_cells(Device d, i64 bytes, size_t n, Category c) {
  StorageRef block = zeroed(d, bytes, c);
  auto owner = std::make_unique<CellBlock>();
  owner->cells = std::make_unique<VersionCell[]>(n);
  owner->block = block.get();
  CellStorage made;
  made.cells = owner->cells.get();
  // The bytes are counted with the block, so none here.
  made.storage = StorageRef(adopt_memory(
      d, block->data, 0,
      [](void* p) {
        auto* b = static_cast<CellBlock*>(p);
        release(b->block);
        delete b;
      },
      owner.get()));
  owner.release();
  retain(block.get());  // the adopted storage holds it from here on
  return made;
}

}  // namespace wt::optim::detail
