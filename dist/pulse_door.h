// How the sockets of a pulse are made: rank 0 has a door, the other ranks knock. Internal.
//
// Rank 0 listens while it waits for the others, and no longer. What comes in must show a random
// token, which travels by another way (MPI), within two seconds, and is answered by a second one: a
// stray connection is closed, and a rank that reached a stranger (the address of a bridge that
// every host has) tries the next address.
#pragma once
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "warptape/dist/sockets.h"

namespace wt::dist {

using PulseToken = std::array<u8, 16>;

// What rank 0 tells the others, as bytes: addresses in the order in which they are tried.
struct PulseInvite {
  PulseToken token{}, answer{};
  u16 port = 0;
  u16 addresses = 0;
  char address[8][48] = {};  // numbers: "192.0.2.7", "2001:db8::1"
};

// Asked some times a second: whether nobody needs the answer any more.
using GiveUp = std::function<bool()>;

class PulseDoor {
 public:
  // At one address only it listens at that one; else at all of this host. Throws DeviceError.
  explicit PulseDoor(const std::vector<std::string>& addresses);
  const PulseInvite& invite() const { return invite_; }

  // A connection a rank; the first is none. What has not come at `until`, or when give_up() says
  // so, is missing: an empty one. Who had an answer too late, and comes again, is let in again.
  std::vector<Socket> admit(int ranks, PulseClock::time_point until, const GiveUp& give_up = {});

 private:
  Socket listener_;
  PulseInvite invite_;
};

// Empty: nobody at those addresses gave the answer before `until`; `why` then says what happened.
Socket knock(const PulseInvite& invite, int rank, PulseClock::time_point until, std::string& why,
             const GiveUp& give_up = {});

}  // namespace wt::dist
