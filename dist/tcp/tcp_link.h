// Bytes between the processes of a job, over connections of TCP that never block. Internal.
//
// Two connections between any two ranks: what a collective sends and what was posted do not mix.
// Nothing frames the bytes: both sides know how many come.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "warptape/dist/link.h"
#include "warptape/dist/tcp/mesh.h"

namespace wt::dist {

class TcpLink : public Link {
 public:
  TcpLink(int rank, int size, TcpLanes lanes, std::vector<std::string> addresses);

  void gather(const void* mine, void* all, int bytes) override;
  void share(void* data, int bytes) override;
  void exchange(const void* out, i64 out_bytes, int to, void* in, i64 in_bytes, int from,
                const Arrived& arrived, Lane lane) override;
  void relay(void* data, i64 bytes, int from, std::span<const int> to) override;
  void post(int to, const void* label, const void* data, i64 bytes) override;
  void read_label(int from, void* label) override;
  bool posted() override;
  bool all_posted() const override { return letters_.empty(); }
  void wait_posted() override;
  std::unique_ptr<Link> group(const std::vector<int>& members, int label,
                              PulseClock::time_point until) const override;
  std::vector<std::string> addresses() const override { return addresses_; }

 private:
  // Bytes on their way to a rank or from it.
  struct Flow {
    int peer;
    Lane lane;
    bool out;
    char* data;
    i64 bytes;
    const i64* limit = nullptr;  // how many of them there are yet; null: all
    i64 moved = 0;
    bool done() const { return moved == bytes; }
    i64 ready() const { return (limit ? *limit : bytes) - moved; }
  };
  struct Letter {
    int to;
    std::vector<char> bytes;
    i64 moved = 0;
  };
  int fd_of(int rank, Lane lane) const { return lanes_[size_t(lane)][size_t(rank)].fd(); }
  // Whether something has moved. Throws Stopped.
  bool move(Flow& f) const;
  void check(PulseClock::time_point until) const;
  // Until all have arrived; `moved` is called when some bytes have. Letters move beside them.
  void run(std::span<Flow> flows, const std::function<void()>& moved);
  void wait_for(std::span<const Flow> flows, bool letters) const;

  TcpLanes lanes_;
  std::vector<std::string> addresses_;
  std::vector<Letter> letters_;
};

}  // namespace wt::dist
