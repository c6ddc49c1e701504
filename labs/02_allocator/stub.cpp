// Lab 2: a caching allocator. page.md says what is asked, allocator.h what is promised.
#include "allocator.h"

namespace blocks {

namespace {

// Yours: this one asks the system each time, and waits for the device each time.
class Mine : public Allocator {
 public:
  explicit Mine(System& system) : system_(system) {}
  void* take(i64 bytes, int stream) override {
    (void)stream;
    return system_.take(bytes < 1 ? 1 : bytes);
  }
  void give(void* block) override { system_.give(block); }
  void trim() override {}

 private:
  System& system_;
};

}  // namespace

std::unique_ptr<Allocator> make_allocator(System& system) { return std::make_unique<Mine>(system); }

// The challenge.
std::unique_ptr<Allocator> make_thrifty_allocator(System& system) { return make_allocator(system); }

}  // namespace blocks
