// The ranks other than 0: how they find it.
#include <thread>

#include "warptape/dist/tcp/rendezvous.h"

namespace wt::dist {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kNameTime{10000};  // a name may be known later than its first use
constexpr milliseconds kConnectTime{3000};
constexpr milliseconds kHeardTime{2000};  // where rank 0 may be at another port

class Visitor {
 public:
  Visitor(const Meeting& m, PulseClock::time_point until)
      : m_(m), until_(until), hello_(hello_of(m)) {}

  Socket run() {
    const auto begun = PulseClock::now();
    for (milliseconds pause{20};; pause = std::min(pause * 2, milliseconds(200))) {
      bool final = false;
      const std::vector<SocketAddress> all = resolve(m_.host, final, why_);
      if (all.empty() && final && PulseClock::now() - begun >= kNameTime)
        throw UsageError(str("[tcp_world] ", why_));
      for (SocketAddress a : all)
        for (int port = m_.port; port <= m_.last_port; ++port) {
          a.set_port(u16(port));
          if (Socket s = visit(a)) return s;
        }
      if (PulseClock::now() + pause >= until_) break;
      std::this_thread::sleep_for(pause);
    }
    throw_refusal({0, m_.host,
                   str("rank ", m_.rank, " did not reach rank 0 at ", m_.place(), " within ",
                       m_.deadline.count(), " ms: ", why_)});
  }

 private:
  bool one_port() const { return m_.port == m_.last_port; }

  // Somebody who is not rank 0 answers there: nothing will change that, if it is the only port.
  Socket stranger(const std::string& where) {
    why_ = str("who listens at ", where, " is no rank 0 of warptape");
    if (!one_port()) return {};
    throw UsageError(str("[tcp_world] ", why_, "\n  Try another port"));
  }

  Socket visit(const SocketAddress& at) {
    const std::string where = str(text_of(at.get()), " port ", at.port());
    Socket s = connect_to(at, std::min(until_, PulseClock::now() + kConnectTime), why_);
    if (!s) {
      why_ = str(where, ": ", why_);
      return {};
    }
    const auto limit = one_port() ? until_ : std::min(until_, PulseClock::now() + kHeardTime);
    Reply r;
    const bool asked = write_all(s.fd(), &hello_, sizeof hello_, limit);
    if (!asked || !read_all(s.fd(), &r, sizeof r, limit)) {
      why_ = str("who listens at ", where, " does not answer");
      return {};
    }
    if (std::memcmp(r.magic, Reply().magic, sizeof r.magic) != 0 || r.kind > Reply::cards ||
        r.bytes > kMostReply)
      return stranger(where);
    std::string text(r.bytes, 0);
    if (!read_all(s.fd(), text.data(), text.size(), limit)) return {};
    if (r.kind == Reply::refused) throw_refusal({r.rank, "", printable(text, 400)});
    why_ = str("at ", where, " ranks of a job of another name meet");
    if (r.kind != Reply::heard) return {};
    if (!write_all(s.fd(), kConfirm, sizeof kConfirm, limit)) return {};
    return s;
  }

  const Meeting& m_;
  const PulseClock::time_point until_;
  const Hello hello_;
  std::string why_ = "nobody listens there";
};

}  // namespace

Socket visit_rank_0(const Meeting& m, PulseClock::time_point until) {
  return Visitor(m, until).run();
}

}  // namespace wt::dist
