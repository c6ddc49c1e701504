#include "warptape/dist/tcp/mesh.h"

#include <atomic>
#include <thread>

#include "warptape/core/str.h"

namespace wt::dist {

namespace {

// By which number a rank asks for a lane at the door of one below it. 0 is no number there.
int number_at_door(int door, int rank, int lane) { return 1 + 2 * (rank - door - 1) + lane; }

}  // namespace

TcpLanes connect_mesh(PulseDoor& door, std::span<const PulseInvite> cards, int rank,
                      PulseClock::time_point until, const GiveUp& give_up, Missing& missing) {
  const int n = int(cards.size());
  std::atomic<bool> stop{false};
  const GiveUp over = [&] { return stop || (give_up && give_up()); };
  std::vector<Socket> came;
  // Beside knocking: whoever knocks here is answered at once, whatever this rank waits for.
  std::thread doorman([&] { came = door.admit(number_at_door(rank, n, 0), until, over); });
  TcpLanes lanes;
  for (TcpLane& lane : lanes) lane.resize(size_t(n));
  for (int r = 0; r < rank && missing.rank < 0; ++r)
    for (int lane = 0; lane < 2 && missing.rank < 0; ++lane) {
      std::string why;
      Socket s = knock(cards[size_t(r)], number_at_door(r, rank, lane), until, why, over);
      if (!s) missing = {r, "did not answer a connection: " + why};
      lanes[size_t(lane)][size_t(r)] = std::move(s);
    }
  stop = missing.rank >= 0;
  doorman.join();
  for (int r = rank + 1; r < n && missing.rank < 0; ++r)
    for (int lane = 0; lane < 2; ++lane) {
      Socket& s = came[size_t(number_at_door(rank, r, lane))];
      if (!s) missing = {r, str("did not connect to rank ", rank)};
      lanes[size_t(lane)][size_t(r)] = std::move(s);
    }
  return lanes;
}

}  // namespace wt::dist
