// What a program holds of an object of the runtime: a number that looks like a pointer, is never
// given twice and cannot be followed, so that a stale one is known.
#pragma once
#include <memory>
#include <unordered_map>

#include "basic.h"

namespace emu {

template <class T, u32 kTag>
class Handles {
 public:
  void* add(std::shared_ptr<T> object) {
    const u64 id = (u64(kTag) << 40) + 16 * ++made_;
    all_.emplace(id, std::move(object));
    return reinterpret_cast<void*>(id);
  }
  std::shared_ptr<T> find(const void* handle) const {
    const auto at = all_.find(reinterpret_cast<u64>(handle));
    return at == all_.end() ? nullptr : at->second;
  }
  bool remove(const void* handle) { return all_.erase(reinterpret_cast<u64>(handle)) > 0; }
  template <class F>
  void each(F&& visit) const {
    for (const auto& [id, object] : all_) visit(*object);
  }
  template <class F>
  void remove_if(F&& doomed) {
    std::erase_if(all_, [&](const auto& x) { return doomed(*x.second); });
  }

 private:
  std::unordered_map<u64, std::shared_ptr<T>> all_;
  u64 made_ = 0;
};

}  // namespace emu
