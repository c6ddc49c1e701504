#include "warptape/dist/pulse.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt::dist;
using namespace std::chrono_literals;
using Clock = PulseClock;

namespace {

const std::vector<std::string> kHosts = {"north", "east", "south", "west"};

// The pulses of a job whose ranks are threads of this process.
struct Job {
  explicit Job(int n, std::chrono::milliseconds deadline, int without = -1) : pulses(size_t(n)) {
    PulseDoor door({"127.0.0.1"});
    const PulseInvite invite = door.invite();
    std::vector<std::thread> ranks;
    const std::vector<std::string> hosts(kHosts.begin(), kHosts.begin() + n);
    const auto until = Clock::now() + 30s;
    raw = Socket();
    for (int r = 1; r < n; ++r)
      ranks.emplace_back([&, r] {
        std::string why;
        std::vector<Socket> link;
        link.push_back(knock(invite, r, until, why));
        if (r == without)  // a rank whose connection the test itself plays
          raw = std::move(link[0]);
        else
          pulses[size_t(r)] = std::make_unique<Pulse>(r, hosts, std::move(link), deadline);
      });
    std::vector<Socket> links = door.admit(n, until);
    for (std::thread& t : ranks) t.join();
    pulses[0] = std::make_unique<Pulse>(0, hosts, std::move(links), deadline);
  }
  Pulse& operator[](int r) { return *pulses[size_t(r)]; }

  std::vector<std::unique_ptr<Pulse>> pulses;
  Socket raw;
};

// Within half a minute, which only a broken pulse needs.
bool soon(const std::function<bool()>& condition) {
  for (const auto until = Clock::now() + 30s; Clock::now() < until;) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

Failure failure_at(Job& job, int rank) {
  REQUIRE(soon([&] { return job[rank].failed(); }));
  return *job[rank].failure();
}

Socket dial(u16 port) {
  Socket s(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(s.fd(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  return s;
}

// What a stranger sends is followed by its connection's end.
bool is_shut(const Socket& s) {
  char byte;
  return soon([&] {
    const ssize_t n = ::recv(s.fd(), &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
  });
}

}  // namespace

TEST_CASE("pulse: a job without trouble") {
  Job job(4, 30s);
  for (int r = 0; r < 4; ++r) job[r].at_step(r);
  std::this_thread::sleep_for(50ms);
  for (int r = 3; r >= 0; --r) {
    CHECK(!job[r].failed());
    job.pulses[size_t(r)].reset();  // one after the other leaves
  }
}

TEST_CASE("pulse: rank 0 may leave first") {
  Job job(3, 30s);
  job.pulses[0].reset();
  std::this_thread::sleep_for(50ms);
  CHECK(!job[1].failed());
  CHECK(!job[2].failed());
}

TEST_CASE("pulse: a rank that gives up is named to all, with its step") {
  for (const int who : {0, 2}) {
    Job job(4, 30s);
    job[who].at_step(812);
    job[who].fail(who, -1, "gave up: no more disk");
    CHECK(job[who].failed());
    for (int r = 0; r < 4; ++r) {
      const Failure f = failure_at(job, r);
      CHECK(f.rank == who);
      CHECK(f.step == 812);
      CHECK(f.host == kHosts[size_t(who)]);
      CHECK(f.reason == "gave up: no more disk");
    }
  }
}

TEST_CASE("pulse: the first failure stays") {
  Job job(3, 30s);
  job[1].fail(2, 5, "first");
  // A rank that has not heard yet would be the first of its own.
  for (int r = 0; r < 3; ++r) CHECK(failure_at(job, r).reason == "first");
  job[0].fail(1, 6, "second");
  job[2].fail(0, 7, "third");
  for (int r = 0; r < 3; ++r) CHECK(failure_at(job, r).reason == "first");
}

TEST_CASE("pulse: an end without a farewell is a death") {
  Job job(4, 30s, 2);
  job.raw.close();
  for (const int r : {0, 1, 3}) {
    const Failure f = failure_at(job, r);
    CHECK(f.rank == 2);
    CHECK(f.host == "south");
    CHECK(f.reason == "died: its connection ended");
  }
}

TEST_CASE("pulse: a rank that is silent for the deadline is named") {
  const auto begun = Clock::now();
  Job job(3, 1100ms, 1);
  for (const int r : {0, 2}) {
    const Failure f = failure_at(job, r);
    CHECK(f.rank == 1);
    CHECK(f.reason == "hangs, or the network is cut: nothing came from it for 1100 ms");
  }
  CHECK(Clock::now() - begun >= 1s);
}

TEST_CASE("pulse: who has not come to a call is found out") {
  for (const int asks : {0, 1}) {
    Job job(4, 400ms);
    job[3].at_step(811);
    for (const int r : {0, 1, 2}) {
      job[r].at_step(812);
      job[r].enter(5);
    }
    job[3].enter(4);
    job[3].leave();
    job[asks].overdue(5, -1, "all_reduce (collective 5) within 400 ms");
    for (int r = 0; r < 4; ++r) {
      const Failure f = failure_at(job, r);
      CHECK(f.rank == 3);
      CHECK(f.step == 811);
      CHECK(f.reason ==
            "did not come to all_reduce (collective 5) within 400 ms, others are at step 812");
    }
  }
}

TEST_CASE("pulse: an exchange that all have come to has no one to blame") {
  Job job(2, 400ms);
  job[0].enter(1);
  job[1].enter(1);
  job[1].overdue(1, -1, "barrier");
  CHECK(failure_at(job, 0).rank == -1);
  CHECK(failure_at(job, 1).reason == "all ranks are in barrier, which has not ended");
}

TEST_CASE("pulse: a letter that did not come is its sender's") {
  Job job(3, 400ms);
  job[2].overdue(0, 1, "recv by rank 2 within 400 ms");
  CHECK(failure_at(job, 0).rank == 1);
  CHECK(failure_at(job, 1).reason == "did not come to recv by rank 2 within 400 ms");
}

TEST_CASE("pulse: whoever waits for a rank that has left hears of it") {
  for (const int leaves : {0, 2}) {
    Job job(3, 30s);
    for (int r = 0; r < 3; ++r) {
      job[r].enter(7);
      job[r].leave();
    }
    job.pulses[size_t(leaves)].reset();
    job[1].enter(8);
    const Failure f = failure_at(job, 1);
    CHECK(f.rank == leaves);
    CHECK(f.reason == "has left: it is done with its calls, and others wait in one");
  }
}

TEST_CASE("pulse: a deadline that is set later holds") {
  Job job(2, 30s, 1);
  job[0].set_deadline(1000ms);
  CHECK(failure_at(job, 0).rank == 1);
}

TEST_CASE("pulse: bytes that are no frame end the job, not the process") {
  struct {
    const char* what;
    std::function<void(PulseFrame&)> spoil;
  } const kinds[] = {{"magic", [](PulseFrame& f) { f.magic ^= 1; }},
                     {"text", [](PulseFrame& f) { f.text = 1u << 31; }},
                     {"kind", [](PulseFrame& f) { f.kind = 9; }},
                     {"rank", [](PulseFrame& f) { f.rank = 3; }},
                     {"rank below", [](PulseFrame& f) { f.rank = -2; }}};
  for (const auto& [what, spoil] : kinds) {
    INFO(what);
    Job job(3, 30s, 2);
    PulseFrame f;
    spoil(f);
    REQUIRE(::send(job.raw.fd(), &f, sizeof f, 0) == ssize_t(sizeof f));
    CHECK(failure_at(job, 1).reason == "sent what is no pulse");
    CHECK(failure_at(job, 0).rank == 2);
  }
}

TEST_CASE("pulse: a frame may come a byte at a time") {
  Job job(2, 30s, 1);
  PulseFrame f;
  f.kind = PulseFrame::failure;
  f.rank = 1;
  f.step = 3;
  f.text = 4;
  std::string bytes(reinterpret_cast<const char*>(&f), sizeof f);
  bytes += "slow";
  for (const char c : bytes) REQUIRE(::send(job.raw.fd(), &c, 1, 0) == 1);
  CHECK(failure_at(job, 0).reason == "slow");
}

TEST_CASE("pulse door: strangers are turned away, and ranks come in all the same") {
  PulseDoor door({"127.0.0.1"});
  const PulseInvite& invite = door.invite();
  CHECK(std::string(invite.address[0]) == "127.0.0.1");
  std::vector<Socket> strangers;
  const auto say = [&](const void* bytes, size_t n) {
    strangers.push_back(dial(invite.port));
    if (n) REQUIRE(::send(strangers.back().fd(), bytes, n, 0) == ssize_t(n));
  };
  struct {
    char magic[8] = {'w', 't', 'p', 'u', 'l', 's', 'e', '1'};
    PulseToken token{};
    i32 rank = 1;
    u32 zero = 0;
  } greeting;
  const std::string web = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  say(web.data(), web.size());
  say(&greeting, sizeof greeting);  // no token
  greeting.token = invite.token;
  for (const i32 rank : {0, -1, 2, 1 << 30}) {  // ranks that are not
    greeting.rank = rank;
    say(&greeting, sizeof greeting);
  }
  greeting.rank = 1;
  greeting.magic[0] = 'W';
  say(&greeting, sizeof greeting);
  say("", 0);  // says nothing
  Socket mine;
  std::thread rank([&] {
    std::string why;
    mine = knock(invite, 1, Clock::now() + 30s, why);
  });
  std::vector<Socket> links = door.admit(2, Clock::now() + 30s);
  rank.join();
  REQUIRE(links.size() == 2);
  CHECK(bool(links[1]));
  CHECK(bool(mine));
  for (size_t i = 0; i < strangers.size(); ++i) CHECK(is_shut(strangers[i]));
  // Nobody listens any more.
  std::string why;
  CHECK(!knock(invite, 1, Clock::now() + 100ms, why));
  CHECK(why.find("127.0.0.1 port ") == 0);
}

TEST_CASE("pulse door: a rank that comes twice is let in once") {
  PulseDoor door({"127.0.0.1"});
  Socket first, second;
  std::thread rank([&] {
    std::string why;
    first = knock(door.invite(), 1, Clock::now() + 30s, why);
    second = knock(door.invite(), 1, Clock::now() + 300ms, why);
  });
  const std::vector<Socket> links = door.admit(3, Clock::now() + 1s);
  rank.join();
  CHECK(bool(links[1]));
  CHECK(!links[2]);  // missing at the end of the time
  CHECK(bool(first));
  CHECK(!second);
}

TEST_CASE("pulse door: who answers without the right token is not rank 0") {
  PulseDoor door({"127.0.0.1"});
  PulseInvite wrong = door.invite();
  wrong.answer[5] ^= 1;
  Socket s;
  std::string why;
  std::thread rank([&] { s = knock(wrong, 1, Clock::now() + 200ms, why); });
  door.admit(2, Clock::now() + 5s);
  rank.join();
  CHECK(!s);
}

TEST_CASE("pulse door: the next address is tried") {
  PulseDoor door({"127.0.0.1"});
  PulseInvite invite = door.invite();
  std::memcpy(invite.address[1], invite.address[0], sizeof invite.address[0]);
  std::strcpy(invite.address[0], "no address");
  invite.addresses = 2;
  Socket s;
  std::string why;
  std::thread rank([&] { s = knock(invite, 1, Clock::now() + 30s, why); });
  const std::vector<Socket> links = door.admit(2, Clock::now() + 30s);
  rank.join();
  CHECK(bool(s));
  CHECK(bool(links[1]));
}

TEST_CASE("pulse: the host's addresses by interface, address and subnet") {
  CHECK(host_addresses("lo") == host_addresses("127.0.0.0/8,::1"));
  CHECK(host_addresses("127.0.0.1") == std::vector<std::string>{"127.0.0.1"});
  CHECK(host_addresses("no-such-interface").empty());
  for (const std::string& a : host_addresses("")) CHECK(a.find("127.") != 0);
}
