#include "warptape/dist/tcp/tcp_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "warptape/core/str.h"

namespace wt::dist {

namespace {

constexpr i64 kMostAtOnce = 4 << 20;  // bytes a call of the system
constexpr int kLook = 20;             // ms between looks at the pulse and the clock

// Those whose letter comes first: letters to one rank go one after the other.
template <class Letters, class F>
void for_first_letters(Letters& letters, int ranks, F f) {
  std::vector<char> seen(static_cast<size_t>(ranks), 0);
  for (auto& l : letters)
    if (!std::exchange(seen[size_t(l.to)], char(1))) f(l);
}

}  // namespace

TcpLink::TcpLink(int rank, int size, TcpLanes lanes, std::vector<std::string> addresses)
    : lanes_(std::move(lanes)), addresses_(std::move(addresses)) {
  rank_ = rank;
  size_ = size;
}

bool TcpLink::move(Flow& f) const {
  const i64 ready = std::min(f.ready(), kMostAtOnce);
  if (ready <= 0) return false;
  const int fd = fd_of(f.peer, f.lane);
  char* const at = f.data + f.moved;
  const ssize_t n = f.out ? ::send(fd, at, size_t(ready), MSG_NOSIGNAL | MSG_DONTWAIT)
                          : ::recv(fd, at, size_t(ready), MSG_DONTWAIT);
  if (n > 0) f.moved += n;
  if (n > 0) return true;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  const std::string how = n == 0 ? std::string("has ended") : str("ends: ", std::strerror(errno));
  throw Stopped{Stopped::error, str("the connection with rank ", f.peer, " ", how)};
}

void TcpLink::check(PulseClock::time_point until) const {
  if (pulse_ && pulse_->failed()) throw Stopped{Stopped::failed, ""};
  if (PulseClock::now() > until) throw Stopped{Stopped::late, ""};
}

// Until one of them can move, or it is time to look around.
void TcpLink::wait_for(std::span<const Flow> flows, bool letters) const {
  std::vector<pollfd> watched;
  for (const Flow& f : flows)
    if (f.ready() > 0)
      watched.push_back({fd_of(f.peer, f.lane), short(f.out ? POLLOUT : POLLIN), 0});
  if (letters)
    for_first_letters(letters_, size_, [&](const Letter& l) {
      watched.push_back({fd_of(l.to, Lane::letters), POLLOUT, 0});
    });
  ::poll(watched.data(), watched.size(), kLook);
}

void TcpLink::run(std::span<Flow> flows, const std::function<void()>& moved) {
  while (true) {
    check(deadline_);
    bool any = false, all = true;
    for (Flow& f : flows) {
      any = move(f) || any;
      all = all && f.done();
    }
    if (any && moved) moved();
    if (all) return;
    if (any) continue;
    if (!letters_.empty()) posted();
    wait_for(flows, true);
  }
}

void TcpLink::gather(const void* mine, void* all, int bytes) {
  char* const to = static_cast<char*>(all);
  char* const own = to + i64(rank_) * bytes;
  if (own != mine) std::memmove(own, mine, size_t(bytes));
  std::vector<Flow> flows;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    flows.push_back({r, Lane::collectives, true, own, bytes});
    flows.push_back({r, Lane::collectives, false, to + i64(r) * bytes, bytes});
  }
  run(flows, {});
}

void TcpLink::share(void* data, int bytes) {
  std::vector<Flow> flows;
  char* const at = static_cast<char*>(data);
  if (rank_ != 0) flows.push_back({0, Lane::collectives, false, at, bytes});
  for (int r = 1; r < size_ && rank_ == 0; ++r)
    flows.push_back({r, Lane::collectives, true, at, bytes});
  run(flows, {});
}

void TcpLink::exchange(const void* out, i64 out_bytes, int to, void* in, i64 in_bytes, int from,
                       const Arrived& arrived, Lane lane) {
  std::vector<Flow> flows;
  if (in_bytes) flows.push_back({from, lane, false, static_cast<char*>(in), in_bytes});
  if (out_bytes)
    flows.push_back({to, lane, true, const_cast<char*>(static_cast<const char*>(out)), out_bytes});
  i64 told = 0;
  run(flows, [&] {
    if (!arrived || !in_bytes) return;
    while (told < in_bytes && flows[0].moved >= std::min(told + kPart, in_bytes)) {
      const i64 bytes = std::min(kPart, in_bytes - told);
      arrived(told, bytes);
      told += bytes;
    }
  });
}

void TcpLink::relay(void* data, i64 bytes, int from, std::span<const int> to) {
  char* const at = static_cast<char*>(data);
  std::vector<Flow> flows;
  flows.reserve(to.size() + 1);  // the limits point into it
  if (from >= 0) flows.push_back({from, Lane::collectives, false, at, bytes});
  const i64* const limit = from >= 0 ? &flows[0].moved : nullptr;
  for (const int rank : to) flows.push_back({rank, Lane::collectives, true, at, bytes, limit});
  run(flows, {});
}

void TcpLink::post(int to, const void* label, const void* data, i64 bytes) {
  Letter l{to, std::vector<char>(size_t(kLabel + bytes))};
  std::memcpy(l.bytes.data(), label, kLabel);
  if (bytes) std::memcpy(l.bytes.data() + kLabel, data, size_t(bytes));
  letters_.push_back(std::move(l));
  posted();
}

void TcpLink::read_label(int from, void* label) {
  exchange(nullptr, 0, 0, label, kLabel, from, {}, Lane::letters);
}

bool TcpLink::posted() {
  for_first_letters(letters_, size_, [&](Letter& l) {
    Flow f{l.to, Lane::letters, true, l.bytes.data(), i64(l.bytes.size())};
    f.moved = l.moved;
    while (move(f)) {}
    l.moved = f.moved;
  });
  std::erase_if(letters_, [](const Letter& l) { return l.moved == i64(l.bytes.size()); });
  return letters_.empty();
}

void TcpLink::wait_posted() {
  while (!posted()) {
    check(deadline_);
    wait_for({}, true);
  }
}

// Cards go over the lane of the collectives, of which none is under way: what a member that is done
// sends next comes after them.
std::unique_ptr<Link> TcpLink::group(const std::vector<int>& members, int,
                                     PulseClock::time_point until) const {
  const size_t n = members.size();
  const size_t place = size_t(std::find(members.begin(), members.end(), rank_) - members.begin());
  TcpLanes lanes;
  if (n > 1) {
    PulseDoor door(addresses_);
    std::vector<PulseInvite> cards(n);
    cards[place] = door.invite();
    constexpr i64 kBytes = sizeof(PulseInvite);
    std::vector<Flow> flows;
    for (size_t m = 0; m < n; ++m) {
      if (m == place) continue;
      char* const own = reinterpret_cast<char*>(&cards[place]);
      char* const theirs = reinterpret_cast<char*>(&cards[m]);
      flows.push_back({members[m], Lane::collectives, true, own, kBytes});
      flows.push_back({members[m], Lane::collectives, false, theirs, kBytes});
    }
    const auto rest = [](const Flow& f) { return !f.done(); };
    while (std::any_of(flows.begin(), flows.end(), rest)) {
      check(until);
      bool any = false;
      for (Flow& f : flows) any = move(f) || any;
      if (!any) wait_for(flows, false);
    }
    Missing missing;
    const GiveUp give_up = [this] { return pulse_ && pulse_->failed(); };
    lanes = connect_mesh(door, cards, int(place), until, give_up, missing);
    if (missing.rank >= 0)
      throw Stopped{Stopped::late, str("rank ", members[size_t(missing.rank)], " ", missing.why)};
  }
  auto made = std::make_unique<TcpLink>(int(place), int(n), std::move(lanes), addresses_);
  made->set_deadline(until);
  return made;
}

}  // namespace wt::dist
