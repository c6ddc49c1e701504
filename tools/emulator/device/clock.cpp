#include "device/clock.h"

#include <algorithm>

namespace emu {
namespace {

constexpr u64 kRemembered = u64(1) << 20;

struct Lanes {
  std::vector<u32> of = std::vector<u32>(kRemembered);  // ring, by serial
  std::vector<std::pair<u32, u64>> last;                // lanes above the host's floor, unsorted
  std::vector<u32> slot;                                // by lane: its place in `last`, or none
  u64 serial = 0;
  u32 lanes = 0;
  ClockRef host = std::make_shared<Clock>();
};
Lanes& lanes() {
  static Lanes* l = new Lanes;
  return *l;
}
constexpr u32 kNoSlot = ~u32(0);

// When the host knows the last operation of every lane, one number says it all.
void raise_floor(Clock& clock) {
  Lanes& l = lanes();
  for (const auto& [lane, serial] : l.last)
    if (!clock.has(lane, serial)) return;
  clock.floor = l.serial;
  clock.seen.clear();
  for (const auto& [lane, serial] : l.last) l.slot[lane] = kNoSlot;
  l.last.clear();
}

}  // namespace

bool Clock::has(u32 lane, u64 serial) const {
  if (serial <= floor) return true;
  const auto at = std::lower_bound(seen.begin(), seen.end(), std::pair<u32, u64>(lane, 0));
  return at != seen.end() && at->first == lane && at->second >= serial;
}

void Clock::add(u32 lane, u64 serial) {
  if (serial <= floor) return;
  const auto at = std::lower_bound(seen.begin(), seen.end(), std::pair<u32, u64>(lane, 0));
  if (at == seen.end() || at->first != lane)
    seen.insert(at, {lane, serial});
  else
    at->second = std::max(at->second, serial);
}

void Clock::join(const Clock& other) {
  if (other.floor > floor) {
    floor = other.floor;
    std::erase_if(seen, [&](const auto& x) { return x.second <= floor; });
  }
  for (const auto& [lane, serial] : other.seen) add(lane, serial);
}

bool Clock::covers(const Clock& other) const {
  if (other.floor > floor) return false;
  for (const auto& [lane, serial] : other.seen)
    if (!has(lane, serial)) return false;
  return true;
}

u32 new_lane() {
  lanes().slot.push_back(kNoSlot);
  return lanes().lanes++;
}

u64 new_serial(u32 lane) {
  Lanes& l = lanes();
  const u64 serial = ++l.serial;
  l.of[serial % kRemembered] = lane;
  u32& slot = l.slot[lane];
  if (slot == kNoSlot) {
    slot = u32(l.last.size());
    l.last.push_back({lane, serial});
  }
  l.last[slot].second = serial;
  return serial;
}

bool lane_of(u64 serial, u32* lane) {
  const Lanes& l = lanes();
  if (serial + kRemembered <= l.serial || serial > l.serial) return false;
  *lane = l.of[serial % kRemembered];
  return true;
}

const ClockRef& host_clock() { return lanes().host; }

void host_learns(const Clock& clock, u32 lane, u64 serial) {
  Lanes& l = lanes();
  if (l.host->has(lane, serial) && l.host->covers(clock)) return;
  auto next = std::make_shared<Clock>(*l.host);
  next->join(clock);
  next->add(lane, serial);
  raise_floor(*next);
  l.host = std::move(next);
}

}  // namespace emu
