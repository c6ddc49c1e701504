// How processes that nobody started together find each other. Internal.
//
// Rank 0 listens at the address that all were told, until all are there, and no longer. Each of the
// others greets it and says who it is; rank 0 answers that it has heard, and counts a rank when
// that is confirmed. When all are there they open doors for each other (dist/pulse_door.h), rank 0
// hands the cards round, and the connections stay as those of the pulse.
//
// What sends no greeting is a stranger: it is turned away, and named should the world not come
// together. A greeting of this job that does not fit (another world size or version, a rank that is
// there already) ends the job: every rank is told why.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/dist/pulse_door.h"

namespace wt::dist {

// Where and who.
struct Meeting {
  int rank = 0, size = 1;
  std::string host;
  // Rank 0 takes the first of them that is free; the others look for it at all.
  u16 port = 0, last_port = 0;
  std::string job, interfaces;
  std::chrono::milliseconds deadline{0};
  std::string place() const;  // "node0:29500", "node0:29501 to 29508"
};

// The world, but for the connections between ranks other than 0.
struct Met {
  std::vector<std::string> hosts;   // of each rank
  std::vector<Socket> links;        // rank 0: one a rank, its own is none; others: that to rank 0
  std::vector<PulseInvite> cards;   // of each rank's door
  std::unique_ptr<PulseDoor> door;  // this rank's
  std::vector<std::string> addresses;  // where the others reach it
};
// Throws PeerFailure, UsageError (an address that is none of this host, a port in use, ...).
Met meet(const Meeting& m, PulseClock::time_point until);

// --- what is sent, in the order of this machine's bytes ---

// The same in every version up to `version`.
struct Hello {
  static constexpr u32 kProtocol = 1;
  char magic[8] = {'w', 't', 'r', 'a', 'n', 'k', 's', '1'};
  u32 order = 0x01020304, protocol = kProtocol;
  i32 rank = 0, size = 0, pid = 0;
  u32 zero = 0;
  char version[32] = {}, host[64] = {}, network[64] = {}, job[64] = {};
};
static_assert(sizeof(Hello) == 256);
Hello hello_of(const Meeting& m);

// `bytes` of text or data follow.
struct Reply {
  enum Kind : u32 { heard, other_job, refused, welcome, cards };
  char magic[8] = {'w', 't', 'r', 'a', 'n', 'k', 's', '0'};
  u32 kind = heard, bytes = 0;
  i32 rank = -1;  // whom a refusal is about
  u32 zero = 0;
};
static_assert(sizeof(Reply) == 24);
constexpr u32 kMostReply = 1u << 24;
constexpr char kConfirm[8] = {'w', 't', 'r', 'a', 'n', 'k', 's', '2'};

struct RankCard {
  PulseInvite door;
  char host[64] = {};
};

// Why the world does not come together.
struct Refusal {
  int rank = -1;
  std::string host, text;
};
[[noreturn]] void throw_refusal(const Refusal& r);

// A text in a field of fixed size, cut where it has no room; and back.
template <size_t n>
void put_text(char (&to)[n], const std::string& text) {
  std::memset(to, 0, n);
  std::memcpy(to, text.data(), std::min(text.size(), n - 1));
}
template <size_t n>
std::string get_text(const char (&from)[n]) {
  return printable({from, ::strnlen(from, n)});
}

// The addresses that a name has, each with the port 0; `why` says why there are none.
std::vector<SocketAddress> resolve(const std::string& host, bool& final, std::string& why);

// Of a socket that does not block: false when the connection ended, or at `until`.
bool read_all(int fd, void* to, size_t bytes, PulseClock::time_point until);
bool write_all(int fd, const void* from, size_t bytes, PulseClock::time_point until);
bool send_reply(int fd, Reply::Kind kind, int rank, const std::string& text,
                PulseClock::time_point until);
// False also for what is no reply, or an unknown one.
bool read_reply(int fd, Reply& r, std::string& text, PulseClock::time_point until);

// Rank 0's side: a connection and a greeting of each rank; its own are none.
struct Arrival {
  Socket socket;
  Hello hello;
};
std::vector<Arrival> receive_ranks(const Meeting& m, PulseClock::time_point until);
// The others' side: a connection that rank 0 has counted.
Socket visit_rank_0(const Meeting& m, PulseClock::time_point until);

}  // namespace wt::dist
