// Checks in threads of ranks: Catch2's own may be used by one thread only.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "warptape/tests/support/catch.h"

// Collects what ranks find; the test's own thread reports it when they have ended:
//
//   Expect expect;
//   dist::spawn(2, [&](dist::Communicator& comm) { expect(comm.size() == 2, "the size"); });
//   expect.report();
class Expect {
 public:
  void operator()(bool good, const std::string& what) {
    const std::lock_guard lock(mutex_);
    ++count_;
    if (!good) failed_.push_back(what);
  }
  void report() {
    for (const std::string& what : failed_) FAIL_CHECK("not so: " << what);
    CHECK(count_ > 0);
    count_ = 0;
    failed_.clear();
  }

 private:
  std::mutex mutex_;
  int count_ = 0;
  std::vector<std::string> failed_;
};
