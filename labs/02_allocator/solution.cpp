#include "allocator.h"

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace blocks {

namespace {

i64 up_to(i64 bytes, i64 unit) { return bytes < unit ? unit : (bytes + unit - 1) / unit * unit; }

class Mine : public Allocator {
 public:
  Mine(System& system, bool thrifty) : system_(system), thrifty_(thrifty) {}
  ~Mine() override {
    for (const auto& [at, segment] : segments_) system_.give(at);
  }

  void* take(i64 bytes, int stream) override {
    bytes = up_to(bytes, kUnit);
    std::set<Place>& free = free_[stream];
    auto found = free.lower_bound({bytes, nullptr});
    if (found == free.end()) {
      if (!new_segment(bytes, stream)) return nullptr;
      found = free.lower_bound({bytes, nullptr});
    }
    char* const at = found->second;
    Block& b = blocks_.at(at);
    free.erase(found);
    b.free = false;
    split(at, b, bytes);
    return at;
  }

  void give(void* block) override {
    char* at = static_cast<char*>(block);
    Block* b = &blocks_.at(at);
    const auto here = blocks_.find(at);
    if (const auto next = std::next(here); joins(*b, next)) {
      free_[b->stream].erase({next->second.bytes, next->first});
      b->bytes += next->second.bytes;
      blocks_.erase(next);
    }
    if (here != blocks_.begin())
      if (const auto before = std::prev(here); joins(*b, before)) {
        free_[b->stream].erase({before->second.bytes, before->first});
        before->second.bytes += b->bytes;
        at = before->first;
        b = &before->second;
        blocks_.erase(here);
      }
    b->free = true;
    free_[b->stream].insert({b->bytes, at});
  }

  void trim() override {
    for (auto s = segments_.begin(); s != segments_.end();) {
      const auto [at, bytes] = *s;
      const Block& first = blocks_.at(at);
      if (!first.free || first.bytes != bytes) {
        ++s;
        continue;
      }
      free_[first.stream].erase({bytes, at});
      blocks_.erase(at);
      s = segments_.erase(s);
      system_.give(at);
    }
  }

 private:
  using Place = std::pair<i64, char*>;  // by size, then by address
  struct Block {
    i64 bytes;
    int stream;
    char* segment;
    bool free;
  };

  bool joins(const Block& b, std::map<char*, Block>::iterator other) const {
    return other != blocks_.end() && other->second.free && other->second.segment == b.segment;
  }
  void split(char* at, Block& b, i64 bytes) {
    if (b.bytes == bytes) return;
    blocks_.insert({at + bytes, {b.bytes - bytes, b.stream, b.segment, true}});
    free_[b.stream].insert({b.bytes - bytes, at + bytes});
    b.bytes = bytes;
  }
  bool new_segment(i64 bytes, int stream) {
    bytes = up_to(bytes, kSegment);
    if (thrifty_ && bytes > kSegment) trim();  // what was too short will hardly be asked for again
    char* at = static_cast<char*>(system_.take(bytes));
    if (!at) {
      trim();
      at = static_cast<char*>(system_.take(bytes));
    }
    if (!at) return false;
    segments_.insert({at, bytes});
    blocks_.insert({at, {bytes, stream, at, true}});
    free_[stream].insert({bytes, at});
    return true;
  }

  System& system_;
  const bool thrifty_;
  std::map<char*, Block> blocks_{};  // all of them, by address
  std::map<char*, i64> segments_{};
  std::unordered_map<int, std::set<Place>> free_{};  // by stream
};

}  // namespace

std::unique_ptr<Allocator> make_allocator(System& system) {
  return std::make_unique<Mine>(system, false);
}

std::unique_ptr<Allocator> make_thrifty_allocator(System& system) {
  return std::make_unique<Mine>(system, true);
}

}  // namespace blocks
