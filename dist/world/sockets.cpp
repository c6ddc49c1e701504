#include "warptape/dist/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace wt::dist {

using std::chrono::milliseconds;

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool SocketAddress::is_near() const {
  if (!is_v6()) {
    const auto* const a = reinterpret_cast<const sockaddr_in*>(&bytes);
    return (ntohl(a->sin_addr.s_addr) >> 24) == 127;
  }
  const in6_addr& a = reinterpret_cast<const sockaddr_in6*>(&bytes)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&a) || IN6_IS_ADDR_LINKLOCAL(&a);
}

void SocketAddress::set_port(u16 port) {
  if (is_v6())
    reinterpret_cast<sockaddr_in6*>(&bytes)->sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in*>(&bytes)->sin_port = htons(port);
}

u16 SocketAddress::port() const {
  return ntohs(is_v6() ? reinterpret_cast<const sockaddr_in6*>(&bytes)->sin6_port
                       : reinterpret_cast<const sockaddr_in*>(&bytes)->sin_port);
}

SocketAddress address_of_numbers(const std::string& text, u16 port) {
  SocketAddress to;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&to.bytes);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&to.bytes);
  if (::inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    to.size = sizeof *v4;
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    to.size = sizeof *v6;
  }
  if (to.size) to.set_port(port);
  return to;
}

std::string text_of(const sockaddr* a) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* const from =
      a->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(a)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr;
  return inet_ntop(a->sa_family, from, text, sizeof text) ? text : "";
}

SocketAddress local_address(int fd) {
  SocketAddress a;
  a.size = sizeof a.bytes;
  if (::getsockname(fd, a.get(), &a.size) != 0) a.size = 0;
  return a;
}

void set_up_socket(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

int left_ms(PulseClock::time_point until) {
  const auto left = std::chrono::duration_cast<milliseconds>(until - PulseClock::now()).count();
  return int(std::clamp<long long>(left, 0, 1000));
}

std::string last_error() { return std::strerror(errno); }

Socket connect_to(const SocketAddress& to, PulseClock::time_point until, std::string& why) {
  Socket s(to.size ? ::socket(to.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1);
  if (!s) {
    why = to.size ? last_error() : "no address";
    return {};
  }
  set_up_socket(s.fd());
  if (::connect(s.fd(), to.get(), to.size) != 0 && errno != EINPROGRESS) {
    why = last_error();
    return {};
  }
  pollfd watched{s.fd(), POLLOUT, 0};
  int ready = 0;
  do {
    ready = ::poll(&watched, 1, left_ms(until));
  } while (ready != 1 && PulseClock::now() < until);
  int error = ready == 1 ? 0 : ETIMEDOUT;
  socklen_t length = sizeof error;
  if (ready == 1) ::getsockopt(s.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (!error) return s;
  why = ready == 1 ? std::strerror(error) : "no answer";
  return {};
}

bool is_ended(int fd) {
  char byte;
  const ssize_t n = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

namespace {

// Of IPv4: 10.1.2.3 in 10.0.0.0/8.
bool in_subnet(const std::string& address, const std::string& subnet) {
  const size_t slash = subnet.find('/');
  in_addr a{}, s{};
  if (slash == std::string::npos || inet_pton(AF_INET, address.c_str(), &a) != 1 ||
      inet_pton(AF_INET, subnet.substr(0, slash).c_str(), &s) != 1)
    return false;
  const int bits = std::clamp(std::atoi(subnet.c_str() + slash + 1), 0, 32);
  const u32 mask = bits ? ~u32(0) << (32 - bits) : 0;
  return (ntohl(a.s_addr) & mask) == (ntohl(s.s_addr) & mask);
}

bool is_wanted(const std::string& only, const char* interface, const std::string& address) {
  if (only.empty()) return true;
  for (size_t begin = 0; begin <= only.size();) {
    const size_t end = std::min(only.find(',', begin), only.size());
    const std::string one = only.substr(begin, end - begin);
    if (one == interface || one == address || in_subnet(address, one)) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::vector<std::string> host_addresses(const std::string& only) {
  std::vector<std::string> found, v6;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (only.empty() && (i->ifa_flags & IFF_LOOPBACK)) continue;
    // An address of one link alone means nothing without that link's name.
    if (family == AF_INET6 &&
        IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr))
      continue;
    const std::string address = text_of(i->ifa_addr);
    if (is_wanted(only, i->ifa_name, address)) (family == AF_INET ? found : v6).push_back(address);
  }
  ::freeifaddrs(all);
  found.insert(found.end(), v6.begin(), v6.end());
  return found;
}

}  // namespace wt::dist
