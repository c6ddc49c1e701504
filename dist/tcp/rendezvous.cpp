#include "warptape/dist/tcp/rendezvous.h"

#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "warptape/core/build_info.h"
#include "warptape/dist/launcher.h"

namespace wt::dist {

std::string Meeting::place() const {
  const bool v6 = host.find(':') != std::string::npos;
  std::string text = v6 ? str("[", host, "]") : host;
  text += str(":", port);
  if (last_port != port) text += str(" to ", last_port);
  return text;
}

Hello hello_of(const Meeting& m) {
  Hello h;
  h.rank = m.rank;
  h.size = m.size;
  h.pid = i32(::getpid());
  put_text(h.version, build_info().version);
  put_text(h.host, host_name());
  put_text(h.network, network_identity());
  put_text(h.job, m.job);
  return h;
}

void throw_refusal(const Refusal& r) {
  throw PeerFailure("[tcp_world] " + r.text, r.rank, r.host, -1, r.text);
}

std::vector<SocketAddress> resolve(const std::string& host, bool& final, std::string& why) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  std::vector<SocketAddress> all;
  final = code == EAI_NONAME || code == EAI_FAIL;
  if (code != 0) {
    why = str("'", printable(host), "' is no address and no known host: ",
              code == EAI_SYSTEM ? last_error() : std::string(::gai_strerror(code)));
    return all;
  }
  for (const addrinfo* i = found; i; i = i->ai_next) {
    if (i->ai_family != AF_INET && i->ai_family != AF_INET6) continue;
    SocketAddress a;
    std::memcpy(&a.bytes, i->ai_addr, i->ai_addrlen);
    a.size = i->ai_addrlen;
    all.push_back(a);
  }
  ::freeaddrinfo(found);
  return all;
}

namespace {

// One direction of read_all and write_all.
template <class Move>
bool all_of(int fd, short events, size_t bytes, PulseClock::time_point until, Move move) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = move(done);
    if (n > 0) done += size_t(n);
    if (n > 0) continue;
    if (n == 0 || (errno != EAGAIN && errno != EINTR) || PulseClock::now() >= until) return false;
    pollfd watched{fd, events, 0};
    ::poll(&watched, 1, left_ms(until));
  }
  return true;
}

}  // namespace

bool read_all(int fd, void* to, size_t bytes, PulseClock::time_point until) {
  return all_of(fd, POLLIN, bytes, until, [&](size_t done) {
    return ::recv(fd, static_cast<char*>(to) + done, bytes - done, MSG_DONTWAIT);
  });
}

bool write_all(int fd, const void* from, size_t bytes, PulseClock::time_point until) {
  return all_of(fd, POLLOUT, bytes, until, [&](size_t done) {
    return ::send(fd, static_cast<const char*>(from) + done, bytes - done,
                  MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

bool send_reply(int fd, Reply::Kind kind, int rank, const std::string& text,
                PulseClock::time_point until) {
  Reply r;
  r.kind = kind;
  r.bytes = u32(text.size());
  r.rank = rank;
  std::string message(reinterpret_cast<const char*>(&r), sizeof r);
  message += text;
  return write_all(fd, message.data(), message.size(), until);
}

bool read_reply(int fd, Reply& r, std::string& text, PulseClock::time_point until) {
  if (!read_all(fd, &r, sizeof r, until)) return false;
  if (std::memcmp(r.magic, Reply().magic, sizeof r.magic) != 0 || r.kind > Reply::cards ||
      r.bytes > kMostReply)
    return false;
  text.resize(r.bytes);
  return read_all(fd, text.data(), text.size(), until);
}

namespace {

// Where a rank's door is to be: at the address by which it came, unless others could not reach
// that.
std::vector<std::string> door_addresses(const Meeting& m, const std::vector<SocketAddress>& own,
                                        bool apart) {
  if (!m.interfaces.empty()) return host_addresses(m.interfaces);
  std::vector<std::string> found;
  for (const SocketAddress& a : own) {
    const std::string text = text_of(a.get());
    if ((apart && a.is_near()) || std::find(found.begin(), found.end(), text) != found.end())
      continue;
    found.push_back(text);
  }
  if (found.empty()) found = apart ? host_addresses("") : std::vector<std::string>{"127.0.0.1"};
  return found;
}

void open_door(Met& met, const Meeting& m, const std::vector<SocketAddress>& own, bool apart) {
  met.addresses = door_addresses(m, own, apart);
  if (met.addresses.empty())
    throw UsageError(str("[tcp_world] rank ", m.rank, " has no address that other hosts reach",
                         m.interfaces.empty() ? "" : ": interfaces '", printable(m.interfaces),
                         m.interfaces.empty() ? "" : "'"));
  met.door = std::make_unique<PulseDoor>(met.addresses);
}

RankCard card_of(const Met& met) {
  RankCard card;
  card.door = met.door->invite();
  put_text(card.host, host_name());
  return card;
}

void take_cards(Met& met, const std::vector<RankCard>& cards) {
  for (const RankCard& c : cards) {
    met.cards.push_back(c.door);
    met.hosts.push_back(get_text(c.host));
  }
}

// Tells all that are there, and throws.
[[noreturn]] void refuse_all(const std::vector<Arrival>& ranks, const Refusal& r) {
  const auto until = PulseClock::now() + std::chrono::seconds(1);
  for (const Arrival& a : ranks)
    if (a.socket) send_reply(a.socket.fd(), Reply::refused, r.rank, r.text, until);
  throw_refusal(r);
}

Met meet_as_0(const Meeting& m, PulseClock::time_point until) {
  std::vector<Arrival> ranks = receive_ranks(m, until);
  const Hello mine = hello_of(m);
  bool apart = false;
  std::vector<SocketAddress> own;
  for (size_t r = 1; r < ranks.size(); ++r) {
    const Hello& h = ranks[r].hello;
    apart = apart || std::memcmp(h.network, mine.network, sizeof mine.network) != 0;
    own.push_back(local_address(ranks[r].socket.fd()));
  }
  Met met;
  open_door(met, m, own, apart);
  std::vector<RankCard> cards(ranks.size());
  cards[0] = card_of(met);
  const auto lost = [&](size_t r) {
    refuse_all(ranks, {int(r), get_text(ranks[r].hello.host),
                       str("rank ", r, " on ", get_text(ranks[r].hello.host),
                           " ended, or stopped, while the world was made")});
  };
  for (size_t r = 1; r < ranks.size(); ++r)
    if (!send_reply(ranks[r].socket.fd(), Reply::welcome, int(r), apart ? "a" : "n", until))
      lost(r);
  for (size_t r = 1; r < ranks.size(); ++r)
    if (!read_all(ranks[r].socket.fd(), &cards[r], sizeof cards[r], until)) lost(r);
  const std::string all(reinterpret_cast<const char*>(cards.data()),
                        cards.size() * sizeof cards[0]);
  for (size_t r = 1; r < ranks.size(); ++r)
    if (!send_reply(ranks[r].socket.fd(), Reply::cards, int(r), all, until)) lost(r);
  take_cards(met, cards);
  for (Arrival& a : ranks) met.links.push_back(std::move(a.socket));
  return met;
}

// What rank 0 says next, which must be of this kind.
std::string next_reply(int fd, const Meeting& m, Reply::Kind kind, PulseClock::time_point until) {
  Reply r;
  std::string text;
  const bool came = read_reply(fd, r, text, until);
  if (came && r.kind == Reply::refused) {
    const std::string why = printable(text, 400);
    throw_refusal({r.rank, "", why});
  }
  if (came && r.kind == kind) return text;
  const bool late = PulseClock::now() >= until;
  throw_refusal({late ? -1 : 0, m.host,
                 late ? str("rank 0 at ", m.place(), " is there, but not all ", m.size,
                            " ranks came within ", m.deadline.count(), " ms")
                      : str("rank 0 at ", m.place(), " ended while the world was made")});
}

Met meet_rank_0(const Meeting& m, PulseClock::time_point until) {
  Met met;
  Socket link = visit_rank_0(m, until);
  // Rank 0 names who is missing when its own deadline has passed, perhaps a little later.
  const auto patience = until + std::chrono::seconds(1);
  const bool apart = next_reply(link.fd(), m, Reply::welcome, patience) == "a";
  open_door(met, m, {local_address(link.fd())}, apart);
  const RankCard card = card_of(met);
  std::vector<RankCard> cards(static_cast<size_t>(m.size));
  std::string all;
  if (write_all(link.fd(), &card, sizeof card, patience))
    all = next_reply(link.fd(), m, Reply::cards, patience);
  if (all.size() != cards.size() * sizeof card)
    throw_refusal({0, m.host, str("rank 0 at ", m.place(), " ended while the world was made")});
  std::memcpy(static_cast<void*>(cards.data()), all.data(), all.size());
  take_cards(met, cards);
  met.links.push_back(std::move(link));
  return met;
}

}  // namespace

Met meet(const Meeting& m, PulseClock::time_point until) {
  return m.rank == 0 ? meet_as_0(m, until) : meet_rank_0(m, until);
}

}  // namespace wt::dist
