#include "warptape/dist/pulse_door.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "warptape/core/error.h"
#include "warptape/core/warning.h"

namespace wt::dist {

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

// A token may not be guessed by its first bytes' time.
bool same(const PulseToken& a, const PulseToken& b) {
  u8 difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = u8(difference | (a[i] ^ b[i]));
  return difference == 0;
}

bool same_magic(const Greeting& g) { return !std::memcmp(g.magic, Greeting().magic, 8); }

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

PulseDoor::PulseDoor(const std::vector<std::string>& addresses) {
  const auto fail = [](const char* what) {
    throw DeviceError(str("[pulse] ", what, ": ", last_error()));
  };
  if (::getrandom(invite_.token.data(), 16, 0) != 16 ||
      ::getrandom(invite_.answer.data(), 16, 0) != 16)
    fail("no random numbers");
  const bool v6 = std::any_of(addresses.begin(), addresses.end(), [](const std::string& a) {
    return a.find(':') != std::string::npos;
  });
  listener_ = Socket(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener_) fail("cannot make a socket");
  if (v6) {  // takes IPv4 too
    const int off = 0;
    ::setsockopt(listener_.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  const std::string where = addresses.size() == 1 ? addresses[0] : v6 ? "::" : "0.0.0.0";
  SocketAddress at = address_of_numbers(where, 0);
  if (!at.size || ::bind(listener_.fd(), at.get(), at.size) != 0 ||
      ::listen(listener_.fd(), 1024) != 0 || !(at = local_address(listener_.fd())).size)
    fail(str("cannot listen at ", where).c_str());
  set_up_socket(listener_.fd());
  invite_.port = at.port();
  for (const std::string& a : addresses) {
    if (invite_.addresses == 8 || a.size() >= sizeof invite_.address[0]) continue;
    std::memcpy(invite_.address[invite_.addresses++], a.data(), a.size());
  }
}

std::vector<Socket> PulseDoor::admit(int ranks, PulseClock::time_point until,
                                     const GiveUp& give_up) {
  std::vector<Socket> links(static_cast<size_t>(ranks));
  std::vector<Guest> guests;
  Greeting answer;
  answer.token = invite_.answer;
  for (int missing = ranks - 1; missing > 0 && PulseClock::now() < until;) {
    if (give_up && give_up()) break;
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
          rank >= ranks)
        continue;
      Socket& place = links[size_t(rank)];
      const bool again = place && is_ended(place.fd());
      if ((place && !again) || !greet(g.socket.fd(), answer)) continue;
      place = std::move(g.socket);
      missing -= !again;
    }
    guests = std::move(waiting);
    if (watched[0].revents) {
      SocketAddress from;
      std::string why;
      Socket s = accept_from(listener_.fd(), from, why);
      if (!why.empty())
        warn_once("pulse.accept", str("[pulse] a connection could not be taken: ", why));
      if (!s) continue;
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
  const auto failed = [&](const std::string& what) {
    why = str(address, " port ", invite.port, ": ", what);
    return Socket();
  };
  const auto limit = std::min(until, PulseClock::now() + kGreetingTime);
  std::string what;
  Socket s = connect_to(address_of_numbers(address, invite.port), limit, what);
  if (!s) return failed(what);
  Greeting mine;
  mine.token = invite.token;
  mine.rank = rank;
  if (!greet(s.fd(), mine)) return failed(last_error());
  Guest host{std::move(s), {}, 0, limit};
  bool whole = false;
  pollfd watched{host.socket.fd(), POLLIN, 0};
  while (PulseClock::now() < limit)
    if (::poll(&watched, 1, left_ms(limit)) == 1 && listen_to(host, whole)) break;
  if (!whole || !same_magic(host.greeting) || !same(host.greeting.token, invite.answer))
    return failed("somebody else, or nobody, answers there");
  return std::move(host.socket);
}

}  // namespace

Socket knock(const PulseInvite& invite, int rank, PulseClock::time_point until, std::string& why,
             const GiveUp& give_up) {
  why = "it named no address";
  do {
    for (int i = 0; i < std::min<int>(invite.addresses, 8); ++i)
      if (Socket s = try_address(invite, invite.address[i], rank, until, why)) return s;
    std::this_thread::sleep_for(milliseconds(50));
  } while (PulseClock::now() < until && !(give_up && give_up()));
  return {};
}

}  // namespace wt::dist
