// What the system does to sockets: a connection with itself, and no descriptors left.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "warptape/core/warning.h"
#include "warptape/tests/dist/tcp/tcp_threads.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt_test;
using namespace std::chrono_literals;
using dist::Socket;

namespace {

std::vector<std::string> warnings;
void keep_warning(std::string_view line) noexcept { warnings.emplace_back(line); }

}  // namespace

TEST_CASE("tcp: a socket that is connected with itself is nobody") {
  dist::SocketAddress at = dist::address_of_numbers("127.0.0.1", 0);
  Socket itself(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(itself.fd(), at.get(), at.size) == 0);
  at = dist::local_address(itself.fd());
  REQUIRE(::connect(itself.fd(), at.get(), at.size) == 0);
  CHECK(dist::is_own_end(itself.fd()));
  // Linux gives whoever connects one port of this parity after the other, at some time this one.
  at.set_port(at.port() ^ 1);
  const auto until = std::chrono::steady_clock::now() + 60s;
  int own = 0;
  std::string why;
  for (int i = 0; i < 40000 && why != "nobody listens there"; ++i) {
    const Socket s = dist::connect_to(at, until, why);
    own += s && dist::local_address(s.fd()).port() == at.port();
  }
  CHECK(own == 0);
}

namespace {

// No descriptor beyond those that are open.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(0);
    ::close(next);
    const rlimit now{rlim_t(next), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("tcp: a process without descriptors says so") {
  const u16 port = free_port();
  {
    const NoMoreFiles none;
    CHECK(message_of([&] {
            dist::tcp_world({.rank = 0, .world_size = 2, .address = loopback(port)});
          }) == str("UsageError: [tcp_world] rank 0 cannot listen at 127.0.0.1:", port,
                    ": Too many open files"));
  }
  // Others come to rank 0 when it has none left.
  wt::detail::forget_warnings();
  warnings.clear();
  const WarningHandler before = set_warning_handler(keep_warning);
  std::optional<NoMoreFiles> none;
  Socket first;
  const Socket late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const TcpEnd end = rank_0_beside(
      port,
      [&] {
        first = dial(port);  // it listens
        none.emplace();
        dist::SocketAddress at = dist::address_of_numbers("127.0.0.1", port);
        ::connect(late.fd(), at.get(), at.size);
      },
      2500ms);
  none.reset();
  set_warning_handler(before);
  REQUIRE(!warnings.empty());
  CHECK(warnings[0] == "[tcp_world] a connection could not be taken: Too many open files");
  CHECK(end.text.find("; a connection could not be taken: Too many open files") !=
        std::string::npos);
  // A try takes a while then, so who tries again and again does not spin.
  u16 at_port = 0;
  const Socket door = listen_somewhere(at_port), guest = dial(at_port);
  none.emplace();
  dist::SocketAddress from;
  std::string why;
  const auto begun = std::chrono::steady_clock::now();
  CHECK(!dist::accept_from(door.fd(), from, why));
  CHECK(why == "Too many open files");
  CHECK(std::chrono::steady_clock::now() - begun >= 10ms);
}
