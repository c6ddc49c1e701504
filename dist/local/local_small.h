// Collectives whose messages would cost more than what they bring: one rank carries them out for
// all of a local world. Internal.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "warptape/dist/communicator.h"

namespace wt::dist::local {

// Up to this size `automatic` is the tree; beyond it a ring is faster.
constexpr i64 kTreeBytes = i64{32} << 10;

// Its larger tensor is of at most kTreeBytes.
bool is_small(const Call& call);

// The same call of every rank, by rank; not send and recv. Nobody touches their tensors meanwhile.
// The bits are those of the tree. `rows` is scratch, kept between calls.
void carry_out_small(std::span<const Call* const> calls, std::vector<std::byte>& rows);

}  // namespace wt::dist::local
