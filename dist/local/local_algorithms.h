// How the ranks of a local world carry a collective out. Internal.
#pragma once
#include "warptape/dist/local/local_world.h"

namespace wt::dist::local {

// The rank's part of `call`, which all ranks have entered (World::enter). `scratch` is the rank's
// own and kept between calls. Throws Ended.
void carry_out(World& world, int rank, const Call& call, std::vector<std::byte>& scratch);

}  // namespace wt::dist::local
