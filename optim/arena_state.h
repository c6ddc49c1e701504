// Which part of an arena's state is kept here. Internal.
#pragma once
#include "warptape/optim/arena.h"

namespace wt::optim::detail {

// Unless one of both is meta.
void copy_if_real(void* to, Device to_device, const void* from, Device from_device, i64 bytes);
// How large the arena is, and its pieces.
void lay_out_state(Arena& a, const Sharding* s);
// What both keep of state k.
void copy_state(const Arena& to, Device to_device, const Arena& from, Device from_device, int k);

}  // namespace wt::optim::detail
