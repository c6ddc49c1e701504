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
#include <charconv>
#include <cstring>
#include <optional>
#include <thread>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"

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

bool is_own_end(int fd) {
  const SocketAddress here = local_address(fd);
  SocketAddress there;
  there.size = sizeof there.bytes;
  if (!here.size || ::getpeername(fd, there.get(), &there.size) != 0) return false;
  return here.port() == there.port() && text_of(here.get()) == text_of(there.get());
}

Socket accept_from(int listener, SocketAddress& from, std::string& why) {
  from.size = sizeof from.bytes;
  Socket s(::accept4(listener, from.get(), &from.size, SOCK_CLOEXEC));
  if (s) {
    set_up_socket(s.fd());
  } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
    why = last_error();
    std::this_thread::sleep_for(milliseconds(20));
  }
  return s;
}

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
  if (!error && !is_own_end(s.fd())) return s;
  why = !error ? "nobody listens there" : ready == 1 ? std::strerror(error) : "no answer";
  return {};
}

bool is_ended(int fd) {
  char byte;
  const ssize_t n = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

namespace {

std::vector<std::string> words_of(const std::string& only) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= only.size();) {
    const size_t end = std::min(only.find(',', begin), only.size());
    words.push_back(only.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// Of IPv4.
struct Subnet {
  u32 address, mask;
};
std::optional<Subnet> subnet_of(const std::string& text) {
  const size_t slash = text.find('/');
  in_addr a{};
  if (slash == text.npos || inet_pton(AF_INET, text.substr(0, slash).c_str(), &a) != 1) return {};
  int bits = -1;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + slash + 1, end, bits);
  if (error != std::errc() || last != end || bits < 0 || bits > 32) return {};
  return Subnet{ntohl(a.s_addr), bits ? ~u32(0) << (32 - bits) : 0};
}

// 10.1.2.3 in 10.0.0.0/8.
bool in_subnet(const std::string& address, const std::string& text) {
  const std::optional<Subnet> s = subnet_of(text);
  in_addr a{};
  return s && inet_pton(AF_INET, address.c_str(), &a) == 1 &&
         (ntohl(a.s_addr) & s->mask) == (s->address & s->mask);
}

bool is_wanted(const std::string& only, const char* interface, const std::string& address) {
  if (only.empty()) return true;
  for (const std::string& one : words_of(only))
    if (one == interface || one == address || in_subnet(address, one)) return true;
  return false;
}

}  // namespace

std::string wrong_subnet(const std::string& only) {
  for (const std::string& one : words_of(only))
    if (one.find('/') != one.npos && !subnet_of(one)) return one;
  return {};
}

std::vector<std::string> host_addresses(const std::string& only) {
  if (const std::string wrong = wrong_subnet(only); !wrong.empty())
    throw UsageError(str("[init] interfaces has '", printable(wrong),
                         "', which is no IPv4 subnet: as 10.0.0.0/8, its mask from 0 to 32"));
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
