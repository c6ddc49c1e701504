// Rank 0: where it listens, and whom it lets in.
#include <poll.h>

#include <cerrno>
#include <set>

#include "warptape/core/warning.h"
#include "warptape/dist/launcher.h"
#include "warptape/dist/tcp/rendezvous.h"

namespace wt::dist {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHelloTime{2000};     // for a greeting to come in whole
constexpr milliseconds kConfirmTime{30000};  // for what its sender does then
constexpr milliseconds kRefusingTime{2000};  // for those who come when the job has failed
constexpr size_t kMostCallers = 256;         // connections that are no ranks yet

// --- Where ---

bool is_name_of_loopback(const std::string& host) {
  return host == "localhost" || host.starts_with("localhost.") ||
         host.find('%') != std::string::npos || address_of_numbers(host, 0).size != 0;
}

class Listeners {
 public:
  explicit Listeners(const Meeting& m) : m_(m) {
    const std::vector<SocketAddress> at = addresses();
    for (int port = m.port; port <= m.last_port && sockets.empty(); ++port)
      open(at, u16(port), port == m.last_port);
  }
  std::vector<Socket> sockets;

 private:
  std::vector<SocketAddress> addresses() const {
    std::vector<SocketAddress> all;
    const auto add = [&](const std::vector<std::string>& texts) {
      for (const std::string& t : texts) all.push_back(address_of_numbers(t, 0));
    };
    if (!m_.interfaces.empty()) {
      add(host_addresses(m_.interfaces));
      if (all.empty())
        throw UsageError(str("[tcp_world] this host has no interface or address '",
                             printable(m_.interfaces), "'"));
      return all;
    }
    bool final = false;
    std::string why;
    all = resolve(m_.host, final, why);
    if (all.empty()) throw UsageError(str("[tcp_world] ", why));
    // A host's own name may be its loopback in its own table, and is another address elsewhere.
    bool near = true;
    for (const SocketAddress& a : all) near = near && a.is_near();
    if (near && !is_name_of_loopback(m_.host)) add(host_addresses(""));
    return all;
  }

  // At all of the addresses that are this host's, or at none where the port is somebody's.
  void open(const std::vector<SocketAddress>& all, u16 port, bool last) {
    int error = 0;
    for (SocketAddress a : all) {
      a.set_port(port);
      Socket s(::socket(a.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (!s) {
        error = errno;
        continue;
      }
      const int on = 1;
      ::setsockopt(s.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (a.is_v6()) ::setsockopt(s.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
      if (::bind(s.fd(), a.get(), a.size) == 0 && ::listen(s.fd(), 1024) == 0) {
        set_up_socket(s.fd());
        sockets.push_back(std::move(s));
        continue;
      }
      error = errno;
      if (error != EADDRINUSE) continue;
      sockets.clear();
      break;
    }
    if (sockets.empty() && last) fail(error);
  }

  [[noreturn]] void fail(int error) const {
    const std::string where = str("[tcp_world] rank 0 cannot listen at ", m_.place(), ": ");
    if (error == EADDRINUSE)
      throw UsageError(where +
                       "another program has the port, or another rank 0\n  Try another "
                       "port, the same for all ranks");
    if (error != EADDRNOTAVAIL) throw UsageError(where + std::strerror(error));
    std::string own;
    for (const std::string& a : host_addresses("")) own += (own.empty() ? "" : ", ") + a;
    throw UsageError(str(where, "that is no address of this host, ", host_name(),
                         own.empty() ? "" : ", which has ", own,
                         "\n  Try the address of the host of rank 0"));
  }

  const Meeting& m_;
};

// --- Whom ---

// A connection that is no rank yet.
struct Caller {
  Socket socket;
  std::string from;
  PulseClock::time_point until;
  Hello hello{};
  size_t have = 0;  // of the greeting, then of the confirmation
  bool heard = false;
  char confirmed[sizeof kConfirm] = {};
};

class Reception {
 public:
  Reception(const Meeting& m, PulseClock::time_point until)
      : m_(m), until_(until), mine_(hello_of(m)), listeners_(m), ranks_(size_t(m.size)) {
    missing_ = m.size - 1;
  }

  std::vector<Arrival> run() {
    while (missing_ > 0 && PulseClock::now() < until_) {
      look();
      if (refusal_) refuse_and_throw();
    }
    if (missing_ > 0) {
      refusal_ = absent();
      tell_ranks();
      throw_refusal(*refusal_);
    }
    return std::move(ranks_);
  }

 private:
  void look();
  void let_in(const Socket& listener);
  bool attend(Caller& g);
  bool greeted(Caller& g);
  bool confirmed(Caller& g);
  std::string misfit(const Hello& h) const;
  void turn_away(const Caller& g, const std::string& why);
  bool refuse(const Caller& g);
  void end(int rank, const std::string& host, const std::string& text) {
    if (!refusal_) refusal_ = std::make_unique<Refusal>(Refusal{rank, host, text});
  }
  void tell_ranks();
  [[noreturn]] void refuse_and_throw();
  std::unique_ptr<Refusal> absent() const;

  const Meeting& m_;
  const PulseClock::time_point until_;
  const Hello mine_;
  Listeners listeners_;
  std::vector<Arrival> ranks_;
  int missing_ = 0;
  std::vector<Caller> callers_;
  i64 strangers_ = 0;
  std::string last_stranger_;
  std::string not_taken_;             // why a connection was not
  std::unique_ptr<Refusal> refusal_;  // the job has failed
  std::set<int> told_;                // of it
};

std::string who(const Hello& h) { return str("process ", h.pid, " on ", get_text(h.host)); }

void Reception::turn_away(const Caller& g, const std::string& why) {
  ++strangers_;
  last_stranger_ = str(g.from, ", which ", why);
  warn_once("tcp_world.stranger",
            str("[tcp_world] turned away a connection from ", last_stranger_));
}

// Of a greeting of this job; empty: it fits.
std::string Reception::misfit(const Hello& h) const {
  const std::string host = get_text(h.host);
  const std::string one = str("rank ", h.rank, " on ", host);
  if (h.protocol != mine_.protocol || get_text(h.version) != get_text(mine_.version))
    return str(one, " has version ", get_text(h.version), " of warptape (protocol ", h.protocol,
               "), rank 0 has ", get_text(mine_.version), " (protocol ", mine_.protocol, ")");
  if (h.size != m_.size)
    return str(one, " says that the world has ", h.size, " ranks, rank 0 says ", m_.size);
  if (h.rank < 0 || h.rank >= m_.size)
    return str(who(h), " says that it is rank ", h.rank, " of ", m_.size);
  const Hello& other = h.rank == 0 ? mine_ : ranks_[size_t(h.rank)].hello;
  if (h.rank == 0 || ranks_[size_t(h.rank)].socket)
    return str("two processes say that they are rank ", h.rank, ": ", who(other), ", and ", who(h));
  return {};
}

bool Reception::refuse(const Caller& g) {
  const auto soon = PulseClock::now() + milliseconds(200);
  send_reply(g.socket.fd(), Reply::refused, refusal_->rank, refusal_->text, soon);
  told_.insert(g.hello.rank);
  return false;
}

// True: there is more to come.
bool Reception::greeted(Caller& g) {
  const Hello& h = g.hello;
  const auto soon = PulseClock::now() + milliseconds(200);
  if (h.order != mine_.order) {
    turn_away(g, "has another order of bytes");
    return false;
  }
  if (std::memcmp(h.job, mine_.job, sizeof h.job) != 0) {
    send_reply(g.socket.fd(), Reply::other_job, -1, "", soon);
    turn_away(g, "is of a job of another name");
    return false;
  }
  const std::string why = misfit(h);
  if (!why.empty()) end(h.rank, get_text(h.host), why);
  if (refusal_) return refuse(g);
  if (!send_reply(g.socket.fd(), Reply::heard, -1, "", soon)) return false;
  g.heard = true;
  g.have = 0;
  g.until = PulseClock::now() + kConfirmTime;
  return true;
}

bool Reception::confirmed(Caller& g) {
  if (std::memcmp(g.confirmed, kConfirm, sizeof kConfirm) != 0) return false;
  const std::string why = misfit(g.hello);  // another one may have come meanwhile
  if (!why.empty()) end(g.hello.rank, get_text(g.hello.host), why);
  if (refusal_) return refuse(g);
  ranks_[size_t(g.hello.rank)] = {std::move(g.socket), g.hello};
  --missing_;
  return false;
}

// Reads what has come. False: it calls no longer.
bool Reception::attend(Caller& g) {
  char* const to = g.heard ? g.confirmed : reinterpret_cast<char*>(&g.hello);
  const size_t whole = g.heard ? sizeof g.confirmed : sizeof g.hello;
  const ssize_t n = ::recv(g.socket.fd(), to + g.have, whole - g.have, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n <= 0) {
    if (!g.heard) turn_away(g, "ended before its greeting did");
    return false;
  }
  g.have += size_t(n);
  if (!g.heard && std::memcmp(&g.hello, &mine_, std::min(g.have, sizeof mine_.magic)) != 0) {
    turn_away(g, "sent what is no greeting of warptape");
    return false;
  }
  if (g.have < whole) return true;
  return g.heard ? confirmed(g) : greeted(g);
}

void Reception::let_in(const Socket& listener) {
  SocketAddress from;
  std::string why;
  Socket s = accept_from(listener.fd(), from, why);
  if (!why.empty()) {
    not_taken_ = why;
    warn_once("tcp_world.accept", str("[tcp_world] a connection could not be taken: ", why));
  }
  if (!s) return;
  Caller g{std::move(s), str(text_of(from.get()), " port ", from.port()), {}};
  g.until = PulseClock::now() + kHelloTime;
  callers_.push_back(std::move(g));
}

// One look at all that is open.
void Reception::look() {
  std::vector<pollfd> watched;
  for (const Socket& s : listeners_.sockets)
    watched.push_back({s.fd(), short(callers_.size() < kMostCallers ? POLLIN : 0), 0});
  const size_t first_caller = watched.size();
  for (const Caller& g : callers_) watched.push_back({g.socket.fd(), POLLIN, 0});
  const size_t first_rank = watched.size();
  for (const Arrival& a : ranks_) watched.push_back({a.socket.fd(), POLLIN, 0});  // -1: none
  ::poll(watched.data(), watched.size(), std::min(left_ms(until_), 100));
  for (size_t i = first_rank; i < watched.size(); ++i) {
    const Arrival& a = ranks_[i - first_rank];
    if (watched[i].revents && is_ended(a.socket.fd()))
      end(a.hello.rank, get_text(a.hello.host),
          str("rank ", a.hello.rank, " on ", get_text(a.hello.host), " (process ", a.hello.pid,
              ") ended while others were missing"));
  }
  std::vector<Caller> left;
  for (size_t i = 0; i < first_rank - first_caller; ++i) {
    Caller& g = callers_[i];
    bool stays = !watched[first_caller + i].revents || attend(g);
    if (stays && PulseClock::now() > g.until) {
      if (!g.heard) turn_away(g, "sent no greeting for 2 s");
      stays = false;
    }
    if (stays) left.push_back(std::move(g));
  }
  callers_ = std::move(left);
  for (size_t i = 0; i < first_caller; ++i)
    if (watched[i].revents) let_in(listeners_.sockets[i]);
}

void Reception::tell_ranks() {
  const auto soon = PulseClock::now() + milliseconds(500);
  for (Arrival& a : ranks_) {
    if (!a.socket) continue;
    send_reply(a.socket.fd(), Reply::refused, refusal_->rank, refusal_->text, soon);
    told_.insert(a.hello.rank);
    a.socket.close();
  }
}

// Those who come a moment later would otherwise wait for their own deadline.
void Reception::refuse_and_throw() {
  tell_ranks();
  const auto over = std::min(until_, PulseClock::now() + kRefusingTime);
  while (int(told_.size()) < m_.size - 1 && PulseClock::now() < over) look();
  throw_refusal(*refusal_);
}

std::unique_ptr<Refusal> Reception::absent() const {
  std::vector<int> who_is;
  for (int r = 1; r < m_.size; ++r)
    if (!ranks_[size_t(r)].socket) who_is.push_back(r);
  std::string text = who_is.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < who_is.size(); ++i) text += str(i ? ", " : "", who_is[i]);
  text += str(" did not come to ", m_.place(), " within ", m_.deadline.count(), " ms");
  if (strangers_)
    text += str("; turned away: ", strangers_, ", the last one from ", last_stranger_);
  if (!not_taken_.empty()) text += "; a connection could not be taken: " + not_taken_;
  return std::make_unique<Refusal>(Refusal{who_is[0], "", text});
}

}  // namespace

std::vector<Arrival> receive_ranks(const Meeting& m, PulseClock::time_point until) {
  return Reception(m, until).run();
}

}  // namespace wt::dist
