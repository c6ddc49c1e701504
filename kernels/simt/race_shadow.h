// What the race checker remembers about each word of memory, and how it is called. Internal to
// kernels/simt/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace wt::simt_runtime {

// `copy`: the write of an asynchronous copy.
enum class Touch : uint32_t { read, write, atomic, copy };

// One remembered access. Epochs count barriers and block starts over the life of the program, so an
// epoch also tells the block; 0 means none. Packed: the checker's time is mostly cache misses here.
struct Access {
  uint32_t epoch = 0;
  uint32_t thread : 10 = 0;  // linear in its block
  Touch touch : 2 = Touch::read;
  uint32_t site : 20 = 0;
  uint32_t clock = 0;  // the lane's count of __syncwarp

  // The same thread again, nothing in between that it could be ordered by.
  bool same_moment(const Access& b) const {
    return epoch == b.epoch && thread == b.thread && clock == b.clock;
  }
};
static_assert(sizeof(Access) == 12);

struct History {
  Access write;    // the last write or atomic
  Access read[2];  // readers: different threads, the first unordered with what follows
};

// 4 bytes of memory. Words of which only parts are accessed get a history for each half, or for
// each byte, until the grid ends.
struct Word {
  History all;
  uint32_t parts_grid = 0;  // grid in which `parts` was made
  uint32_t parts : 31 = 0;  // first of four; of halves, the first and third are in use
  uint32_t by_bytes : 1 = 0;
};

// Shadow of an address range: as much address space as it takes, touched as it is used. Reused with
// the memory that it describes.
class Shadow {
 public:
  Shadow(const char* begin, size_t bytes);
  bool holds(const char* p) const { return size_t(p - begin_) < bytes_; }
  Word& word(const char* p) { return words_[size_t(p - begin_) / 4]; }
  const char* begin() const { return begin_; }
  void clear();

 private:
  const char* begin_;
  size_t bytes_;
  Word* words_;
};

// race_checker.cpp: the running thread accesses memory at `code`, a return address.
void race_access(const void* p, size_t bytes, Touch kind, const void* code);
void install_race_checker();

}  // namespace wt::simt_runtime
