// Sockets of TCP, as ranks that are processes use them. Internal.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <utility>
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

// An address with its port, as the system's calls take it.
struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;  // 0: none
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  bool is_v6() const { return bytes.ss_family == AF_INET6; }
  // This host's own alone: 127.0.0.0/8 and ::1; or one of a link, which means nothing without it.
  bool is_near() const;
  void set_port(u16 port);
  u16 port() const;
};

// Of numbers: "192.0.2.7", "2001:db8::1"; size 0 where they are none.
SocketAddress address_of_numbers(const std::string& text, u16 port);
std::string text_of(const sockaddr* address);
// At this end of a connection.
SocketAddress local_address(int fd);

// Not blocking; small frames at once.
void set_up_socket(int fd);
// Milliseconds for poll(): until then, at most a second.
int left_ms(PulseClock::time_point until);
// errno's words.
std::string last_error();
// Connected before `until`, or `why` says what happened.
Socket connect_to(const SocketAddress& to, PulseClock::time_point until, std::string& why);
// A connection of a socket with itself, which TCP allows: where nobody listens at a port of this
// host that the system may also give to who connects.
bool is_own_end(int fd);
// The next connection of a listener, set up, and where it is from; none, or `why` says what
// happened where it is not that the caller is gone. Waits a moment then: a process without
// descriptors would be told of the same connection again and again.
Socket accept_from(int listener, SocketAddress& from, std::string& why);
// The other side has ended the connection, as far as one can see without taking bytes from it.
bool is_ended(int fd);

// The addresses of this host that other hosts can reach, IPv4 first: of the interfaces or subnets
// ("eth0", "10.0.0.0/8") in `only`, separated by commas; of all that are up where it is empty.
// Throws UsageError for what wrong_subnet() names.
std::vector<std::string> host_addresses(const std::string& only);
// The first of `only` that has a '/' and is no IPv4 subnet; empty: there is none.
std::string wrong_subnet(const std::string& only);

}  // namespace wt::dist
