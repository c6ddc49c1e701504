// How the sockets of a pulse are made: rank 0 has a door, the other ranks knock. Internal.
//
// Rank 0 listens while it waits for the others, and no longer. What comes in must show a random
// token, which travels by another way (MPI), within two seconds, and is answered by a second one: a
// stray connection is closed, and a rank that reached a stranger (the address of a bridge that
// every host has) tries the next address.
#pragma once
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::dist {

using PulseClock = std::chrono::steady_clock;

// A descriptor that is closed at the end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& o) noexcept : fd_(o.fd_) { o.fd_ = -1; }
  Socket& operator=(Socket&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~Socket() { close(); }
  void close();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

using PulseToken = std::array<u8, 16>;

// What rank 0 tells the others, as bytes: addresses in the order in which they are tried.
struct PulseInvite {
  PulseToken token{}, answer{};
  u16 port = 0;
  u16 addresses = 0;
  char address[8][48] = {};  // numbers: "192.0.2.7", "2001:db8::1"
};

// The addresses of this host that other hosts can reach, IPv4 first: of the interfaces or subnets
// ("eth0", "10.0.0.0/8") in `only`, separated by commas; of all that are up where it is empty.
std::vector<std::string> host_addresses(const std::string& only);

class PulseDoor {
 public:
  // At one address only it listens at that one; else at all of this host. Throws DeviceError.
  explicit PulseDoor(const std::vector<std::string>& addresses);
  const PulseInvite& invite() const { return invite_; }

  // A connection a rank; the first is none. What has not come at `until` is missing: an empty one.
  std::vector<Socket> admit(int ranks, PulseClock::time_point until);

 private:
  Socket listener_;
  PulseInvite invite_;
};

// Empty: nobody at those addresses gave the answer before `until`; `why` then says what happened.
Socket knock(const PulseInvite& invite, int rank, PulseClock::time_point until, std::string& why);

}  // namespace wt::dist
