// Which part of an arena's state is kept here. Internal.
#pragma once
#include "warptape/optim/arena.h"

namespace wt::optim::detail {

// Unless one of both is meta.
void copy_if_real(void* to, Device to_device, const void* from, Device from_device, i64 bytes);
// How large the arena is, and its pieces.
void lay_out_state(Arena& a, const Sharding* s);
// What both keep of some memory, slot by slot: places differ.
struct Kept {
  const Arena& arena;
  const StorageRef& memory;
  const std::vector<Piece>& pieces;
  Device device;
};
void copy_kept(const Kept& to, const Kept& from);
// Memory over whole arenas.
std::vector<Piece> whole(const Arena& a);

}  // namespace wt::optim::detail
