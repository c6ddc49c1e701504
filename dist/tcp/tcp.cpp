#include "warptape/dist/tcp.h"

#include <charconv>

#include "warptape/core/error.h"
#include "warptape/core/frame.h"
#include "warptape/core/input_file.h"
#include "warptape/core/mode.h"
#include "warptape/dist/process_world.h"
#include "warptape/dist/tcp/rendezvous.h"
#include "warptape/dist/tcp/tcp_link.h"

namespace wt::dist {

namespace {

constexpr int kMostPorts = 64;

// Fills in host and ports; false: it is no address with a port.
bool split_address(const std::string& text, int ports, Meeting& m) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  std::string host = text.substr(0, colon);
  const bool bracket = host.front() == '[' && host.back() == ']';
  if (!bracket && host.find(':') != std::string::npos) return false;  // IPv6 without its port
  if (bracket) host = host.substr(1, host.size() - 2);
  int port = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc() || last != end || host.empty()) return false;
  if (port < 1 || port + ports - 1 > 65535) return false;
  m.host = host;
  m.port = u16(port);
  m.last_port = u16(port + ports - 1);
  return true;
}

// All that is wrong with them, at once.
Meeting checked(const TcpOptions& o) {
  check_deadline("tcp_world", o.deadline);
  Meeting m{.rank = o.rank,
            .size = o.world_size,
            .host = {},
            .job = o.job,
            .interfaces = o.interfaces,
            .deadline = o.deadline};
  std::string wrong;
  const auto add = [&](const std::string& what) { wrong += (wrong.empty() ? "" : "; ") + what; };
  if (o.world_size < 1) add(str("world_size must be at least 1, got ", o.world_size));
  if (o.rank < 0 || (o.world_size >= 1 && o.rank >= o.world_size))
    add(str("rank must be from 0 to world_size - 1, got ", o.rank));
  if (o.ports < 1 || o.ports > kMostPorts)
    add(str("ports must be from 1 to ", kMostPorts, ", got ", o.ports));
  if (o.job.size() >= sizeof Hello().job)
    add(str("job has ", o.job.size(), " bytes, at most ", sizeof Hello().job - 1));
  if (o.world_size != 1 && !split_address(o.address, std::clamp(o.ports, 1, kMostPorts), m))
    add(str("address must be a host and a port, as node0:29500 or [::1]:29500, got '",
            printable(o.address), "'"));
  if (const std::string subnet = wrong_subnet(o.interfaces); !subnet.empty())
    add(str("interfaces has '", printable(subnet),
            "', which is no IPv4 subnet: as 10.0.0.0/8, its mask from 0 to 32"));
  if (!wrong.empty()) throw UsageError("[tcp_world] " + wrong);
  return m;
}

}  // namespace

std::unique_ptr<Communicator> tcp_world(TcpOptions options, Frame at) {
  const FrameScope frame(at);
  const Meeting m = checked(options);
  const ProcessOptions process{"tcp", m.deadline, m.interfaces, {}};
  if (m.size == 1)
    return process_communicator(
        std::make_unique<TcpLink>(0, 1, TcpLanes{}, std::vector<std::string>{}), nullptr, process);
  const auto until = PulseClock::now() + m.deadline;
  Met met = meet(m, until);
  auto pulse =
      std::make_unique<Pulse>(m.rank, std::move(met.hosts), std::move(met.links), m.deadline);
  Missing missing;
  TcpLanes lanes = connect_mesh(
      *met.door, met.cards, m.rank, until, [&] { return pulse->failed(); }, missing);
  if (missing.rank >= 0) pulse->fail(missing.rank, -1, missing.why);
  if (pulse->failed()) throw failure_of(*pulse->failure(), "tcp_world", mode.frame);
  auto link = std::make_unique<TcpLink>(m.rank, m.size, std::move(lanes), std::move(met.addresses));
  link->set_deadline(until);
  return process_communicator(std::move(link), std::move(pulse), process);
}

}  // namespace wt::dist
