// Worlds of the backend tcp whose ranks are threads of this process, on the loopback.
#pragma once
#include <sys/socket.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/dist/sockets.h"
#include "warptape/dist/tcp.h"
#include "warptape/tests/support/catch.h"

namespace wt_test {

// A port of the loopback that nobody has; or a listener there, which keeps it.
inline wt::dist::Socket listen_somewhere(wt::u16& port, const std::string& host = "127.0.0.1") {
  wt::dist::SocketAddress at = wt::dist::address_of_numbers(host, 0);
  wt::dist::Socket s(::socket(at.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(s.fd(), at.get(), at.size) == 0);
  REQUIRE(::listen(s.fd(), 16) == 0);
  port = wt::dist::local_address(s.fd()).port();
  return s;
}
inline wt::u16 free_port() {
  wt::u16 port = 0;
  listen_somewhere(port);
  return port;
}
inline std::string loopback(wt::u16 port) { return wt::str("127.0.0.1:", port); }

inline wt::dist::Socket dial(wt::u16 port) {
  wt::dist::Socket s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  wt::dist::SocketAddress at = wt::dist::address_of_numbers("127.0.0.1", port);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (::connect(s.fd(), at.get(), at.size) != 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return s;
}

// How a rank ended: kind and text of what it threw, empty for nothing.
struct TcpEnd {
  std::string kind, text;
  int rank = -2, exit_code = 0;
  long long step = -1;
};

// f on a thread a rank, each with what options_of(rank) asks for. Checks of Catch2 are for the main
// thread.
inline std::vector<TcpEnd> tcp_ranks(
    int ranks, const std::function<wt::dist::TcpOptions(int rank)>& options_of,
    const std::function<void(wt::dist::Communicator&)>& f) {
  std::vector<TcpEnd> ends(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      TcpEnd& end = ends[size_t(r)];
      try {
        const auto comm = wt::dist::tcp_world(options_of(r));
        f(*comm);
      } catch (const wt::PeerFailure& e) {
        end = {e.kind(), e.what(), e.rank, e.exit_code(), e.last_step};
      } catch (const wt::Error& e) {
        end = {e.kind(), e.what(), -2, e.exit_code()};
      }
    });
  for (std::thread& t : threads) t.join();
  return ends;
}

inline std::vector<TcpEnd> tcp_ranks(int ranks, std::chrono::milliseconds deadline,
                                     const std::function<void(wt::dist::Communicator&)>& f) {
  const std::string address = loopback(free_port());
  return tcp_ranks(
      ranks,
      [&](int r) {
        return wt::dist::TcpOptions{
            .rank = r, .world_size = ranks, .address = address, .deadline = deadline};
      },
      f);
}

// The end of rank 0 of 2 while `other` goes on beside it.
inline TcpEnd rank_0_beside(wt::u16 port, const std::function<void()>& other,
                            std::chrono::milliseconds deadline = std::chrono::seconds(60)) {
  std::thread beside(other);
  const auto ends = tcp_ranks(
      1,
      [&](int) {
        return wt::dist::TcpOptions{
            .rank = 0, .world_size = 2, .address = loopback(port), .deadline = deadline};
      },
      [](wt::dist::Communicator&) {});
  beside.join();
  return ends[0];
}

inline void check_quiet(const std::vector<TcpEnd>& ends) {
  for (size_t r = 0; r < ends.size(); ++r) {
    INFO("rank " << r << ": " << ends[r].text);
    CHECK(ends[r].kind == "");
  }
}

}  // namespace wt_test
