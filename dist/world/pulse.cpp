#include "warptape/dist/pulse.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "warptape/core/str.h"

namespace wt::dist {

using std::chrono::milliseconds;

namespace {

constexpr size_t kMostUnsent = 1 << 16;  // beats are left out beyond it
constexpr milliseconds kLeastSilence{1000};

std::string after(milliseconds d) { return str(d.count(), " ms"); }

}  // namespace

Pulse::Pulse(int rank, std::vector<std::string> hosts, std::vector<Socket> links, milliseconds d)
    : rank_(rank), hosts_(std::move(hosts)), steps_(hosts_.size()), deadline_ms_(d.count()) {
  for (auto& s : steps_) s = -1;
  const auto now = PulseClock::now();
  for (Socket& s : links) {
    Peer p;
    p.link = std::move(s);
    p.heard = now;
    peers_.push_back(std::move(p));
  }
  bell_ = Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread_ = std::thread([this] { run(); });
}

void Pulse::farewell() {
  const std::lock_guard lock(mutex_);
  post_all(frame(PulseFrame::leave), "");
}

Pulse::~Pulse() {
  farewell();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  const u64 one = 1;
  (void)!::write(bell_.fd(), &one, sizeof one);
  thread_.join();
}

milliseconds Pulse::interval() const {
  return std::clamp(deadline() / 10, milliseconds(20), milliseconds(500));
}

milliseconds Pulse::silence() const { return std::max(deadline(), kLeastSilence); }

PulseFrame Pulse::frame(PulseFrame::Kind kind) const {
  PulseFrame f;
  f.kind = kind;
  f.rank = rank_;
  f.busy = busy_;
  f.step = step_;
  f.call = call_;
  return f;
}

void Pulse::enter(i64 call) {
  call_ = call;
  busy_ = true;
}

std::optional<Failure> Pulse::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// --- What goes out. mutex_ is held. ---

void Pulse::flush(Peer& p) {
  while (p.link && !p.out.empty()) {
    const ssize_t n = ::send(p.link.fd(), p.out.data(), p.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return;  // its end, if it is one, is seen by reading
    p.out.erase(0, size_t(n));
  }
}

void Pulse::post(int rank, PulseFrame f, const std::string& text) {
  Peer& p = peers_[size_t(rank)];
  if (!p.link || (f.kind == PulseFrame::beat && p.out.size() > kMostUnsent)) return;
  f.text = u32(std::min<size_t>(text.size(), kMostPulseText));
  p.out.append(reinterpret_cast<const char*>(&f), sizeof f);
  p.out.append(text, 0, f.text);
  flush(p);
}

void Pulse::post_all(const PulseFrame& f, const std::string& text) {
  for (size_t i = 0; i < peers_.size(); ++i) post(int(i), f, text);
}

// The failure of the job, first told to those who have to hear it from here: what this rank does
// next may be its end.
void Pulse::settle(Failure f) {
  if (failure_) return;
  if (f.rank >= 0) {
    f.step = std::max<i64>(f.step, steps_[size_t(f.rank)]);
    if (f.rank == rank_) f.step = std::max<i64>(f.step, step_);
    if (size_t(f.rank) < peers_.size()) f.step = std::max(f.step, peers_[size_t(f.rank)].step);
  }
  if (f.rank >= 0) f.host = hosts_[size_t(f.rank)];
  if (f.reason.size() > kMostPulseText) f.reason.resize(kMostPulseText);
  PulseFrame message = frame(PulseFrame::failure);
  message.rank = f.rank;
  message.step = f.step;
  post_all(message, f.reason);
  failure_ = std::move(f);
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Pulse::fail(int rank, i64 step, const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  settle({rank, step, "", reason});
}

// --- What comes in. mutex_ is held. ---

void Pulse::ended(int rank) {
  Peer& p = peers_[size_t(rank)];
  p.link.close();
  if (!p.left) settle({rank, -1, "", "died: its connection ended"});
}

bool Pulse::take(int rank, const PulseFrame& f, const std::string& text) {
  Peer& p = peers_[size_t(rank)];
  if (f.kind > PulseFrame::leave || f.rank < -1 || f.rank >= size()) return false;
  if (f.kind == PulseFrame::failure) {
    settle({f.rank, f.step, "", text});
    return true;
  }
  p.step = f.step;
  p.call = f.call;
  p.busy = f.busy && f.kind != PulseFrame::leave;
  p.left = p.left || f.kind == PulseFrame::leave;
  if (f.kind == PulseFrame::overdue && rank_ == 0)
    ask({f.call, f.rank, f.step, text, PulseClock::now(), {}});
  return true;
}

void Pulse::read(int rank) {
  Peer& p = peers_[size_t(rank)];
  char buffer[4096];
  ssize_t n;
  while ((n = ::recv(p.link.fd(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {
    p.heard = PulseClock::now();
    p.in.append(buffer, size_t(n));
    while (p.in.size() >= sizeof(PulseFrame)) {
      PulseFrame f;
      std::memcpy(&f, p.in.data(), sizeof f);
      const bool sound = f.magic == PulseFrame().magic && f.text <= kMostPulseText;
      if (sound && p.in.size() < sizeof f + f.text) break;
      if (!sound || !take(rank, f, p.in.substr(sizeof f, f.text))) {
        p.link.close();
        return settle({rank, -1, "", "sent what is no pulse"});
      }
      p.in.erase(0, sizeof f + f.text);
    }
  }
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) ended(rank);
}

// --- Who is missing. mutex_ is held. ---

void Pulse::ask(Question q) {
  if (question_ || failure_) return;
  // Whoever can has beaten by then, and said in which call it is.
  q.decide = q.asked + 4 * interval() + milliseconds(100);
  question_ = std::move(q);
}

void Pulse::decide(PulseClock::time_point now) {
  if (!question_ || failure_ || now < question_->decide) return;
  const Question q = *question_;
  const std::string others = q.step < 0 ? "" : str(", others are at step ", q.step);
  peers_[0].step = step_;
  peers_[0].call = call_;
  for (int r = 1; r < size(); ++r)
    if (peers_[size_t(r)].link && peers_[size_t(r)].heard < q.asked)
      return settle({r, -1, "", str("hangs: it is silent, while others wait in ", q.what, others)});
  if (q.peer >= 0) return settle({q.peer, -1, "", str("did not come to ", q.what, others)});
  for (int r = 0; r < size(); ++r)
    if (peers_[size_t(r)].call < q.call)
      return settle({r, -1, "", str("did not come to ", q.what, others)});
  settle({-1, q.step, "", str("all ranks are in ", q.what, ", which has not ended")});
}

// A rank that said farewell, and others have begun what it never will.
void Pulse::watch_left() {
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i].left) continue;
    bool waits = busy_ && call_ > peers_[i].call;
    for (const Peer& p : peers_) waits = waits || (p.busy && p.call > peers_[i].call);
    if (waits)
      return settle(
          {int(i), -1, "", "has left: it is done with its calls, and others wait in one"});
  }
}

void Pulse::watch(PulseClock::time_point now) {
  watch_left();
  for (size_t i = 0; i < peers_.size(); ++i)
    if (peers_[i].link && now - peers_[i].heard > silence())
      settle({int(i), -1, "",
              str("hangs, or the network is cut: nothing came from it for ", after(silence()))});
  if (rank_ == 0) decide(now);
}

void Pulse::overdue(i64 call, int peer, const std::string& what) {
  std::unique_lock lock(mutex_);
  if (rank_ == 0) {
    ask({call, peer, step_, what, PulseClock::now(), {}});
  } else {
    PulseFrame f = frame(PulseFrame::overdue);
    f.rank = peer;
    f.call = call;
    post(0, f, what);
  }
  const milliseconds limit = 8 * interval() + milliseconds(500);
  if (changed_.wait_for(lock, limit, [&] { return failure_.has_value(); })) return;
  settle({rank_ ? 0 : -1, -1, "", str("no answer about who is missing in ", what)});
}

void Pulse::run() {
  auto beat = PulseClock::now(), before = beat;
  std::vector<pollfd> watched;
  std::vector<int> ranks;
  while (true) {
    watched.assign(1, {bell_.fd(), POLLIN, 0});
    ranks.clear();
    milliseconds wait = interval();
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
      for (size_t i = 0; i < peers_.size(); ++i) {
        const Peer& p = peers_[i];
        if (!p.link) continue;
        watched.push_back({p.link.fd(), short(p.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
        ranks.push_back(int(i));
      }
    }
    ::poll(watched.data(), watched.size(), int(wait.count()));
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (watched[i + 1].revents & POLLOUT) flush(peers_[size_t(ranks[i])]);
      if (watched[i + 1].revents & ~POLLOUT) read(ranks[i]);
    }
    const auto now = PulseClock::now();
    // This thread itself stood still (a stopped process, a frozen machine): the silence was its
    // own.
    if (now - before > silence() / 2)
      for (Peer& p : peers_) p.heard = now;
    before = now;
    if (now >= beat) {
      post_all(frame(PulseFrame::beat), "");
      beat = now + interval();
    }
    watch(now);
  }
}

}  // namespace wt::dist
