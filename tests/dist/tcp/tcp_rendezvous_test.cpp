// Worlds of the backend tcp that do not come together, and why; who is turned away.
#include <sys/socket.h>

#include <cstring>
#include <limits>

#include "warptape/core/factories.h"
#include "warptape/core/warning.h"
#include "warptape/dist/tcp/rendezvous.h"
#include "warptape/tests/dist/tcp/tcp_threads.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt_test;
using namespace std::chrono_literals;
using dist::Communicator;
using dist::Hello;
using dist::Socket;
using dist::TcpOptions;

namespace {

void nothing(Communicator&) {}

// What rank 0 of a world says to somebody who sends it these bytes; empty: it ends the connection.
// Waits for the end of what it says.
std::string answer_to(u16 port, const void* bytes, size_t n) {
  const Socket s = dial(port);
  if (n) ::send(s.fd(), bytes, n, MSG_NOSIGNAL);
  std::string got;
  char buffer[512];
  for (ssize_t k; (k = ::recv(s.fd(), buffer, sizeof buffer, 0)) > 0;)
    got.append(buffer, size_t(k));
  return got;
}

Hello hello_from(int rank, int size, const std::string& job = "") {
  dist::Meeting m;
  m.rank = rank;
  m.size = size;
  m.job = job;
  return dist::hello_of(m);
}

std::vector<std::string> warnings;
void keep_warning(std::string_view line) noexcept { warnings.emplace_back(line); }

}  // namespace

TEST_CASE("tcp: options that are wrong are all named") {
  const auto text = [](const TcpOptions& o) { return message_of([&] { dist::tcp_world(o); }); };
  const std::string all = text({.address = "node0", .job = std::string(64, 'x'), .ports = 0});
  CHECK(all ==
        "UsageError: [tcp_world] world_size must be at least 1, got -1; rank must be from 0 to "
        "world_size - 1, got -1; ports must be from 1 to 64, got 0; job has 64 bytes, at most 63; "
        "address must be a host and a port, as node0:29500 or [::1]:29500, got 'node0'");
  for (const char* address :
       {"", ":1", "a:", "a:0", "a:65536", "a:1x", "::1", "::1:29500", "[]:1", "a:-1"}) {
    INFO(address);
    CHECK(text({.rank = 0, .world_size = 2, .address = address}).find("address must be") !=
          std::string::npos);
  }
  CHECK(text({.rank = 2, .world_size = 2, .address = "a:1"}).find("got 2") != std::string::npos);
  CHECK(text({.rank = 0, .world_size = 2, .address = "a:1", .deadline = 0ms}).find("deadline") !=
        std::string::npos);
  CHECK(text({.rank = 0, .world_size = 2, .address = "a:65535", .ports = 2}).find("address must") !=
        std::string::npos);
  const int most = std::numeric_limits<int>::max();
  CHECK(text({.rank = 0, .world_size = 2, .address = "a:1", .ports = most}) ==
        str("UsageError: [tcp_world] ports must be from 1 to 64, got ", most));
  for (const char* subnet : {"10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "10.0.0.0/", "::1/8"}) {
    INFO(subnet);
    const std::string interfaces = std::string("eth0,") + subnet;
    CHECK(text({.rank = 1, .world_size = 2, .address = "a:1", .interfaces = interfaces}) ==
          str("UsageError: [tcp_world] interfaces has '", subnet,
              "', which is no IPv4 subnet: as 10.0.0.0/8, its mask from 0 to 32"));
    CHECK_THROWS_AS(dist::host_addresses(interfaces), UsageError);
  }
  CHECK(!dist::host_addresses("127.0.0.0/8").empty());
  CHECK(!dist::host_addresses("0.0.0.0/0").empty());
  CHECK(dist::host_addresses("192.0.2.0/32").empty());
}

TEST_CASE("tcp: by names, IPv4 and IPv6, and where rank 0 comes last") {
  for (const char* host : {"127.0.0.1", "localhost", "[::1]", "127.0.0.9"}) {
    INFO(host);
    u16 probe = 0;
    Socket s(::socket(AF_INET6, SOCK_STREAM, 0));
    dist::SocketAddress at = dist::address_of_numbers("::1", 0);
    if (std::string(host) == "[::1]" && ::bind(s.fd(), at.get(), at.size) != 0) continue;
    probe = free_port();
    check_quiet(tcp_ranks(
        3,
        [&](int r) {
          if (r == 0) std::this_thread::sleep_for(100ms);
          return TcpOptions{
              .rank = r, .world_size = 3, .address = str(host, ":", probe), .deadline = 60s};
        },
        [](Communicator& comm) {
          comm.all_reduce(zeros({100}));
          comm.split(0)->barrier();
        }));
  }
}

TEST_CASE("tcp: ranks that never come are named to those that are there") {
  const std::string address = loopback(free_port());
  const auto ends = tcp_ranks(
      2,
      [&](int r) {
        return TcpOptions{.rank = 2 * r, .world_size = 4, .address = address, .deadline = 1500ms};
      },
      nothing);
  for (const TcpEnd& e : ends) {
    CHECK(e.text ==
          str("PeerFailure: [tcp_world] ranks 1, 3 did not come to ", address, " within 1500 ms"));
    CHECK(e.rank == 1);
    CHECK(e.exit_code == 7);
  }
}

TEST_CASE("tcp: where rank 0 never comes its address is named") {
  const u16 port = free_port();
  const auto ends = tcp_ranks(
      1,
      [&](int) {
        return TcpOptions{.rank = 1, .world_size = 2, .address = loopback(port), .deadline = 300ms};
      },
      nothing);
  CHECK(ends[0].rank == 0);
  CHECK(ends[0].text == str("PeerFailure: [tcp_world] rank 1 did not reach rank 0 at 127.0.0.1:",
                            port, " within 300 ms: 127.0.0.1 port ", port, ": Connection refused"));
}

TEST_CASE("tcp: wrong addresses") {
  const auto text = [](int rank, const std::string& address) {
    return message_of([&] {
      dist::tcp_world({.rank = rank, .world_size = 2, .address = address, .deadline = 500ms});
    });
  };
  // An address of another host (of documentation's), where this one is to listen.
  const std::string other = text(0, "192.0.2.7:29500");
  CHECK(other.find("UsageError: [tcp_world] rank 0 cannot listen at 192.0.2.7:29500: that is no "
                   "address of this host") == 0);
  CHECK(text(0, "no-such-host.invalid:29500")
            .find("'no-such-host.invalid' is no address and no known host") != std::string::npos);
  CHECK(text(1, "no-such-host.invalid:29500")
            .find("'no-such-host.invalid' is no address and no known host") != std::string::npos);
  CHECK(message_of([] {
          dist::tcp_world({.rank = 0,
                           .world_size = 2,
                           .address = "127.0.0.1:29500",
                           .interfaces = "no-such-interface"});
        }) == "UsageError: [tcp_world] this host has no interface or address 'no-such-interface'");
}

TEST_CASE("tcp: a port in use") {
  u16 port = 0;
  const Socket taken = listen_somewhere(port);
  const std::string text = message_of([&] {
    dist::tcp_world({.rank = 0, .world_size = 2, .address = loopback(port), .deadline = 30s});
  });
  CHECK(text == str("UsageError: [tcp_world] rank 0 cannot listen at 127.0.0.1:", port,
                    ": another program has the port, or another rank 0\n  Try another port, the "
                    "same for all ranks"));
  // The next one of several is taken, and found.
  const auto several = [&](int r) {
    return TcpOptions{.rank = r,
                      .world_size = 3,
                      .address = loopback(port),
                      .deadline = 60s,
                      .job = "a job",
                      .ports = 8};
  };
  check_quiet(tcp_ranks(3, several, [](Communicator& comm) { comm.barrier(); }));
}

TEST_CASE("tcp: who listens there is no rank 0") {
  u16 port = 0;
  const Socket listener = listen_somewhere(port);
  std::thread web([&] {
    const Socket s(::accept(listener.fd(), nullptr, nullptr));
    const std::string page = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    ::send(s.fd(), page.data(), page.size(), MSG_NOSIGNAL);
    char byte;
    while (::recv(s.fd(), &byte, 1, 0) > 0) {}
  });
  const std::string text = message_of([&] {
    dist::tcp_world({.rank = 1, .world_size = 2, .address = loopback(port), .deadline = 30s});
  });
  web.join();
  CHECK(text == str("UsageError: [tcp_world] who listens at 127.0.0.1 port ", port,
                    " is no rank 0 of warptape\n  Try another port"));
}

TEST_CASE("tcp: who says nothing there is named at the deadline") {
  u16 port = 0;
  const Socket listener = listen_somewhere(port);
  const std::string text = message_of([&] {
    dist::tcp_world({.rank = 1, .world_size = 2, .address = loopback(port), .deadline = 300ms});
  });
  CHECK(text.find(str("who listens at 127.0.0.1 port ", port, " does not answer")) !=
        std::string::npos);
}

TEST_CASE("tcp: strangers are turned away, said once, and named where the world does not come") {
  wt::detail::forget_warnings();
  warnings.clear();
  const WarningHandler before = set_warning_handler(keep_warning);
  const u16 port = free_port();
  const std::string web = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::vector<std::string> said;
  const TcpEnd end = rank_0_beside(
      port,
      [&] {
        said.push_back(answer_to(port, web.data(), web.size()));
        Hello h = hello_from(1, 2);
        h.order = 0x04030201;
        said.push_back(answer_to(port, &h, sizeof h));
        h = hello_from(1, 2, "another job");
        said.push_back(answer_to(port, &h, sizeof h));
        { const Socket silent = dial(port); }
      },
      2500ms);
  set_warning_handler(before);
  CHECK(end.text.find(str("PeerFailure: [tcp_world] rank 1 did not come to 127.0.0.1:", port,
                          " within 2500 ms; turned away: 4, the last one from 127.0.0.1 port ")) ==
        0);
  CHECK(end.text.find(", which ended before its greeting did") != std::string::npos);
  CHECK(said[0].empty());
  CHECK(said[1].empty());
  CHECK(said[2].size() == sizeof(dist::Reply));
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("[tcp_world] turned away a connection from 127.0.0.1 port ") == 0);
  CHECK(warnings[0].find(", which sent what is no greeting of warptape") != std::string::npos);
}

TEST_CASE("tcp: a world comes together beside strangers") {
  const u16 port = free_port();
  std::atomic<bool> over{false};
  std::vector<std::thread> strangers;
  for (int i = 0; i < 3; ++i)
    strangers.emplace_back([&, i] {
      std::vector<Socket> held;
      while (!over) {
        Socket s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        dist::SocketAddress at = dist::address_of_numbers("127.0.0.1", port);
        if (::connect(s.fd(), at.get(), at.size) != 0) continue;
        const std::string noise(size_t(i * 100), 'w');  // the first letter of a greeting
        if (i) ::send(s.fd(), noise.data(), noise.size(), MSG_NOSIGNAL);
        if (held.size() < 20) held.push_back(std::move(s));
        std::this_thread::sleep_for(2ms);
      }
    });
  const auto ends = tcp_ranks(
      3,
      [&](int r) {
        std::this_thread::sleep_for(r * 50ms);
        return TcpOptions{.rank = r, .world_size = 3, .address = loopback(port), .deadline = 60s};
      },
      [](Communicator& comm) { comm.barrier(); });
  over = true;
  for (std::thread& t : strangers) t.join();
  check_quiet(ends);
}

TEST_CASE("tcp: greetings that do not fit end the job, and all are told") {
  const u16 port = free_port();
  const auto refused = [](const std::string& reply) {
    dist::Reply r;
    if (reply.size() < sizeof r) return std::string();
    std::memcpy(static_cast<void*>(&r), reply.data(), sizeof r);
    return r.kind == dist::Reply::refused ? reply.substr(sizeof r) : std::string();
  };
  const std::string host = dist::get_text(hello_from(1, 2).host);
  struct {
    Hello hello;
    std::string text;
  } cases[] = {
      {hello_from(1, 3),
       str("rank 1 on ", host, " says that the world has 3 ranks, rank 0 says 2")},
      {hello_from(0, 2), "two processes say that they are rank 0: process "},
      {hello_from(2, 2), "says that it is rank 2 of 2"},
      {hello_from(-1, 2), "says that it is rank -1 of 2"},
      {hello_from(1, 2), "has version 0.0.9 of warptape (protocol 1), rank 0 has "},
      {hello_from(1, 2), "(protocol 7), rank 0 has "},
  };
  dist::put_text(cases[4].hello.version, "0.0.9");
  cases[5].hello.protocol = 7;
  for (const auto& c : cases) {
    INFO(c.text);
    std::string told;
    const TcpEnd end =
        rank_0_beside(port, [&] { told = refused(answer_to(port, &c.hello, sizeof c.hello)); });
    CHECK(end.exit_code == 7);
    CHECK(end.rank == c.hello.rank);
    CHECK(end.text.find(c.text) != std::string::npos);
    CHECK(end.text == "PeerFailure: [tcp_world] " + told);
  }
}

TEST_CASE("tcp: two processes of one rank, other world sizes, and a rank that is gone again") {
  const std::string address = loopback(free_port());
  const auto ends_of = [&](const std::vector<TcpOptions>& all) {
    return tcp_ranks(
        int(all.size()), [&](int r) { return all[size_t(r)]; }, nothing);
  };
  const auto options = [&](int rank, int size) {
    return TcpOptions{.rank = rank, .world_size = size, .address = address, .deadline = 60s};
  };
  for (const TcpEnd& e : ends_of({options(0, 3), options(1, 3), options(1, 3)})) {
    CHECK(e.text.find("two processes say that they are rank 1: process ") != std::string::npos);
    CHECK(e.rank == 1);
  }
  for (const TcpEnd& e : ends_of({options(0, 3), options(1, 2), options(2, 3)})) {
    CHECK(e.text.find("says that the world has 2 ranks, rank 0 says 3") != std::string::npos);
    CHECK(e.rank == 1);
  }
  // Rank 1 has come, and gives up before rank 2 is there.
  auto hasty = options(1, 3);
  hasty.deadline = 1000ms;
  const auto ends = ends_of({options(0, 3), hasty});
  CHECK(ends[0].text.find("ended while others were missing") != std::string::npos);
  CHECK(ends[0].rank == 1);
  CHECK(ends[1].text.find("is there, but not all 3 ranks came within 1000 ms") !=
        std::string::npos);
}

TEST_CASE("tcp: jobs of other names do not mix") {
  const std::string address = loopback(free_port());
  const auto ends = tcp_ranks(
      2,
      [&](int r) {
        return TcpOptions{.rank = r,
                          .world_size = 2,
                          .address = address,
                          .deadline = 1000ms,
                          .job = r ? "mine" : "yours"};
      },
      nothing);
  CHECK(ends[0].text.find(", which is of a job of another name") != std::string::npos);
  CHECK(ends[1].text.find("ranks of a job of another name meet") != std::string::npos);
}

TEST_CASE("tcp: nobody listens when the world is there") {
  const u16 port = free_port();
  std::atomic<int> open{0};
  check_quiet(tcp_ranks(
      2,
      [&](int r) {
        return TcpOptions{.rank = r, .world_size = 2, .address = loopback(port), .deadline = 60s};
      },
      [&](Communicator& comm) {
        comm.barrier();
        Socket s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        dist::SocketAddress at = dist::address_of_numbers("127.0.0.1", port);
        open += ::connect(s.fd(), at.get(), at.size) == 0;
        comm.barrier();
      }));
  CHECK(open == 0);
}
