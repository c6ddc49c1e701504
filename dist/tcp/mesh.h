// Connections between all ranks of a world or group. Internal.
#pragma once
#include <array>
#include <span>
#include <string>
#include <vector>

#include "warptape/dist/pulse_door.h"

namespace wt::dist {

// A connection a rank; this rank's own is none.
using TcpLane = std::vector<Socket>;
// That of Link::Lane::collectives, and that of letters.
using TcpLanes = std::array<TcpLane, 2>;

// Who is not there, and what is known of it.
struct Missing {
  int rank = -1;  // none
  std::string why;
};

// Each rank has opened a door and told the others of it: `cards`, by rank. A rank knocks at the
// doors of those below it, while those above knock at its own. Where `missing` is filled in, at
// `until` or when give_up() says so, the result is of no use.
TcpLanes connect_mesh(PulseDoor& door, std::span<const PulseInvite> cards, int rank,
                      PulseClock::time_point until, const GiveUp& give_up, Missing& missing);

}  // namespace wt::dist
