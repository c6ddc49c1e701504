// Memory of arenas whose slots have versions of their own. Internal.
#pragma once
#include "warptape/optim/arena.h"

namespace wt::optim::detail {

// A parameter in an arena is a root of its own: a cell a slot, which lives as long as any tensor
// over the memory.
struct CellStorage {
  StorageRef storage;
  VersionCell* cells;
};
// Zeroed, of category c, with n cells.
CellStorage zeroed_with_cells(Device d, i64 bytes, size_t n, Category c);

}  // namespace wt::optim::detail
