// A device whose memory is numbers alone, an allocator whose every answer is looked at, and the
// rule of allocator.h in its plainest form. Internal to check.cpp.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allocator.h"
#include "warptape/core/str.h"
#include "warptape/labs/support/cases.h"

namespace watched {

using namespace wt;
using blocks::kSegment;
using blocks::kUnit;
using wt::lab::expect;

inline constexpr i64 MiB = i64(1) << 20;
inline i64 up_to(i64 bytes, i64 unit) { return std::max(unit, (bytes + unit - 1) / unit * unit); }

// Addresses that are mapped nowhere. `gap`: between segments.
class Memory : public blocks::System {
 public:
  explicit Memory(i64 room = i64(1) << 40, i64 gap = 0) : room_(room), gap_(gap) {}
  ~Memory() override = default;
  void* take(i64 bytes) override {
    ++calls;
    expect(bytes >= 1, str("the system was asked for ", bytes, " bytes"), "size");
    if (reserved + bytes > room_) return nullptr;
    reserved += bytes;
    peak = std::max(peak, reserved);
    char* const at = next_;
    next_ += up_to(bytes, kUnit) + gap_;
    segments.insert({at, bytes});
    return at;
  }
  void give(void* segment) override {
    ++calls;
    const auto s = segments.find(static_cast<char*>(segment));
    expect(s != segments.end(), "the system was given what is no segment, or was given it twice",
           "segment");
    reserved -= s->second;
    segments.erase(s);
  }
  // The segment that holds all of the block; null: none.
  const char* holder(const char* at, i64 bytes) const {
    auto s = segments.upper_bound(const_cast<char*>(at));
    if (s == segments.begin()) return nullptr;
    --s;
    return at + bytes <= s->first + s->second ? s->first : nullptr;
  }
  i64 calls = 0, reserved = 0, peak = 0;
  std::map<char*, i64> segments{};

 private:
  const i64 room_, gap_;
  char* next_ = reinterpret_cast<char*>(0x100000000000);  // NOLINT: no memory is there
};

// A student's allocator whose every answer is looked at.
class Watched {
 public:
  explicit Watched(i64 room = i64(1) << 40, i64 gap = 0, bool thrifty = false)
      : memory(room, gap),
        mine_(thrifty ? blocks::make_thrifty_allocator(memory) : blocks::make_allocator(memory)) {
    expect(mine_ != nullptr, "make_allocator() returned nothing", "size");
  }
  char* take(i64 bytes, int stream = 0) {
    char* const at = static_cast<char*>(mine_->take(bytes, stream));
    if (!at) return nullptr;
    const i64 held = up_to(bytes, kUnit);
    const std::string what = str("the block of ", bytes, " bytes ");
    expect(reinterpret_cast<u64>(at) % u64(kUnit) == 0, what + "begins at no multiple of 512",
           "size");
    expect(memory.holder(at, std::max<i64>(bytes, 1)), what + "does not lie in one segment",
           "segment");
    const auto next = used_.lower_bound(at);
    expect(next == used_.end() || at + std::max<i64>(bytes, 1) <= next->first,
           what + "overlaps with one that is in use", "overlap");
    expect(next == used_.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= at,
           what + "overlaps with one that is in use", "overlap");
    used_.insert({at, {std::max<i64>(bytes, 1), stream}});
    live += held;
    peak = std::max(peak, live);
    return at;
  }
  void give(char* at) {
    live -= up_to(used_.at(at).bytes, kUnit);
    used_.erase(at);
    mine_->give(at);
  }
  void trim() { mine_->trim(); }
  void end() { mine_.reset(); }
  Memory memory;
  i64 live = 0, peak = 0;

 private:
  struct Used {
    i64 bytes;
    int stream;
  };
  std::map<char*, Used> used_{};
  std::unique_ptr<blocks::Allocator> mine_;
};

// The rule of allocator.h in its plainest form, beside which an allocator is held.
class Rule {
 public:
  struct Piece {
    i64 segment, at, bytes;
    int stream;
    bool free;
  };
  // The number of the piece's segment and its place there.
  std::pair<i64, i64> take(i64 bytes, int stream) {
    bytes = up_to(bytes, kUnit);
    size_t best = pieces_.size();
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const Piece& p = pieces_[i];
      if (p.free && p.stream == stream && p.bytes >= bytes &&
          (best == pieces_.size() || p.bytes < pieces_[best].bytes))
        best = i;
    }
    if (best == pieces_.size()) {
      pieces_.push_back({segments++, 0, up_to(bytes, kSegment), stream, true});
      reserved += pieces_.back().bytes;
    }
    Piece rest = pieces_[best];
    pieces_[best].free = false;
    pieces_[best].bytes = bytes;
    rest.at += bytes;
    rest.bytes -= bytes;
    if (rest.bytes > 0) pieces_.insert(pieces_.begin() + i64(best) + 1, rest);
    return {pieces_[best].segment, pieces_[best].at};
  }
  void give(std::pair<i64, i64> where) {
    size_t i = 0;
    while (std::pair(pieces_[i].segment, pieces_[i].at) != where) ++i;
    pieces_[i].free = true;
    if (i + 1 < pieces_.size()) join(i);
    if (i > 0) join(i - 1);
  }
  i64 segments = 0, reserved = 0;

 private:
  void join(size_t i) {
    const Piece &a = pieces_[i], &b = pieces_[i + 1];
    if (!a.free || !b.free || a.segment != b.segment) return;
    pieces_[i].bytes += b.bytes;
    pieces_.erase(pieces_.begin() + i64(i) + 1);
  }
  std::vector<Piece> pieces_{};
};

}  // namespace watched
