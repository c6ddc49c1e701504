#include "warptape/dist/pulse_door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "warptape/core/error.h"

namespace wt::dist {

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

namespace {

using std::chrono::milliseconds;

// The first bytes of a connection, in the order of this machine's bytes: all of a job have one.
struct Greeting {
  u8 magic[8] = {'w', 't', 'p', 'u', 'l', 's', 'e', '1'};
  PulseToken token{};
  i32 rank = 0;
  u32 zero = 0;
};
static_assert(sizeof(Greeting) == 32);
constexpr milliseconds kGreetingTime{2000};
constexpr size_t kMostGuests = 64;  // connections that have not shown a token yet

std::string last_error() { return std::strerror(errno); }

bool is_v6(const std::string& address) { return address.find(':') != std::string::npos; }

// Gives its length; 0: no address.
socklen_t fill(sockaddr_storage& to, const std::string& address, u16 port) {
  std::memset(&to, 0, sizeof to);
  if (is_v6(address)) {
    auto* const a = reinterpret_cast<sockaddr_in6*>(&to);
    a->sin6_family = AF_INET6;
    a->sin6_port = htons(port);
    return inet_pton(AF_INET6, address.c_str(), &a->sin6_addr) == 1 ? sizeof *a : 0;
  }
  auto* const a = reinterpret_cast<sockaddr_in*>(&to);
  a->sin_family = AF_INET;
  a->sin_port = htons(port);
  return inet_pton(AF_INET, address.c_str(), &a->sin_addr) == 1 ? sizeof *a : 0;
}

std::string text_of(const sockaddr* a) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* const from =
      a->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(a)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr;
  return inet_ntop(a->sa_family, from, text, sizeof text) ? text : "";
}

// Small frames at once, and an end that is noticed where nothing is sent.
void set_up(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

int left_ms(PulseClock::time_point until) {
  const auto left = std::chrono::duration_cast<milliseconds>(until - PulseClock::now()).count();
  return int(std::clamp<long long>(left, 0, 1000));
}

// A token may not be guessed by its first bytes' time.
bool same(const PulseToken& a, const PulseToken& b) {
  u8 difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = u8(difference | (a[i] ^ b[i]));
  return difference == 0;
}

bool same_magic(const Greeting& g) { return !std::memcmp(g.magic, Greeting().magic, 8); }

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

// A connection whose greeting has not been read to its end.
struct Guest {
  Socket socket;
  Greeting greeting;
  size_t have = 0;
  PulseClock::time_point until;
};

// Reads what is there. True: it is over, for good (`whole`) or not.
bool listen_to(Guest& g, bool& whole) {
  const ssize_t n = ::recv(g.socket.fd(), reinterpret_cast<char*>(&g.greeting) + g.have,
                           sizeof g.greeting - g.have, 0);
  if (n < 0) return errno != EAGAIN && errno != EINTR;
  g.have += size_t(n);
  whole = g.have == sizeof g.greeting;
  return n == 0 || whole;
}

bool greet(int fd, const Greeting& g) {
  return ::send(fd, &g, sizeof g, MSG_NOSIGNAL) == ssize_t(sizeof g);
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

PulseDoor::PulseDoor(const std::vector<std::string>& addresses) {
  const auto fail = [](const char* what) {
    throw DeviceError(str("[pulse] ", what, ": ", last_error()));
  };
  if (::getrandom(invite_.token.data(), 16, 0) != 16 ||
      ::getrandom(invite_.answer.data(), 16, 0) != 16)
    fail("no random numbers");
  const bool v6 = std::any_of(addresses.begin(), addresses.end(), is_v6);
  listener_ = Socket(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener_) fail("cannot make a socket");
  if (v6) {  // takes IPv4 too
    const int off = 0;
    ::setsockopt(listener_.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  sockaddr_storage at{};
  const std::string where = addresses.size() == 1 ? addresses[0] : v6 ? "::" : "0.0.0.0";
  socklen_t size = fill(at, where, 0);
  if (!size || ::bind(listener_.fd(), reinterpret_cast<sockaddr*>(&at), size) != 0 ||
      ::listen(listener_.fd(), 1024) != 0 ||
      ::getsockname(listener_.fd(), reinterpret_cast<sockaddr*>(&at), &size) != 0)
    fail(str("cannot listen at ", where).c_str());
  set_up(listener_.fd());
  invite_.port = ntohs(v6 ? reinterpret_cast<sockaddr_in6*>(&at)->sin6_port
                          : reinterpret_cast<sockaddr_in*>(&at)->sin_port);
  for (const std::string& a : addresses) {
    if (invite_.addresses == 8 || a.size() >= sizeof invite_.address[0]) continue;
    std::memcpy(invite_.address[invite_.addresses++], a.data(), a.size());
  }
}

std::vector<Socket> PulseDoor::admit(int ranks, PulseClock::time_point until) {
  std::vector<Socket> links(static_cast<size_t>(ranks));
  std::vector<Guest> guests;
  Greeting answer;
  answer.token = invite_.answer;
  for (int missing = ranks - 1; missing > 0 && PulseClock::now() < until;) {
    std::vector<pollfd> watched{
        {listener_.fd(), short(guests.size() < kMostGuests ? POLLIN : 0), 0}};
    for (const Guest& g : guests) watched.push_back({g.socket.fd(), POLLIN, 0});
    ::poll(watched.data(), watched.size(), std::min(left_ms(until), 100));
    std::vector<Guest> waiting;
    for (size_t i = 0; i < guests.size(); ++i) {
      Guest& g = guests[i];
      bool whole = false;
      const bool over = watched[i + 1].revents && listen_to(g, whole);
      if (!over && PulseClock::now() < g.until) waiting.push_back(std::move(g));
      const i32 rank = g.greeting.rank;
      if (!whole || !same_magic(g.greeting) || !same(g.greeting.token, invite_.token) || rank < 1 ||
          rank >= ranks || links[size_t(rank)] || !greet(g.socket.fd(), answer))
        continue;
      links[size_t(rank)] = std::move(g.socket);
      --missing;
    }
    guests = std::move(waiting);
    if (watched[0].revents) {
      Socket s(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!s) continue;
      set_up(s.fd());
      guests.push_back({std::move(s), {}, 0, PulseClock::now() + kGreetingTime});
    }
  }
  listener_.close();
  return links;
}

namespace {

// One try at one address.
Socket try_address(const PulseInvite& invite, const char* address, int rank,
                   PulseClock::time_point until, std::string& why) {
  sockaddr_storage at{};
  const socklen_t size = fill(at, address, invite.port);
  Socket s(size ? ::socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1);
  const auto failed = [&](const std::string& what) {
    why = str(address, " port ", invite.port, ": ", what);
    return Socket();
  };
  if (!s) return failed("no address");
  set_up(s.fd());
  if (::connect(s.fd(), reinterpret_cast<sockaddr*>(&at), size) != 0 && errno != EINPROGRESS)
    return failed(last_error());
  pollfd watched{s.fd(), POLLOUT, 0};
  const auto limit = std::min(until, PulseClock::now() + kGreetingTime);
  if (::poll(&watched, 1, left_ms(limit)) != 1) return failed("no answer");
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(s.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error) return failed(std::strerror(error));
  Greeting mine;
  mine.token = invite.token;
  mine.rank = rank;
  if (!greet(s.fd(), mine)) return failed(last_error());
  Guest host{std::move(s), {}, 0, limit};
  bool whole = false;
  watched = {host.socket.fd(), POLLIN, 0};
  while (PulseClock::now() < limit)
    if (::poll(&watched, 1, left_ms(limit)) == 1 && listen_to(host, whole)) break;
  if (!whole || !same_magic(host.greeting) || !same(host.greeting.token, invite.answer))
    return failed("somebody else, or nobody, answers there");
  return std::move(host.socket);
}

}  // namespace

Socket knock(const PulseInvite& invite, int rank, PulseClock::time_point until, std::string& why) {
  why = "rank 0 named no address";
  do {
    for (int i = 0; i < std::min<int>(invite.addresses, 8); ++i)
      if (Socket s = try_address(invite, invite.address[i], rank, until, why)) return s;
    std::this_thread::sleep_for(milliseconds(50));
  } while (PulseClock::now() < until);
  return {};
}

}  // namespace wt::dist
