// Nothing of the library may outlive a test: compares live tensors, storages and nodes.
#pragma once
#include "warptape/core/memory.h"
#include "warptape/tests/support/catch.h"

struct LeakGuard {
  wt::memory::LiveObjects before = wt::memory::live_objects();
  ~LeakGuard() {
    const wt::memory::LiveObjects after = wt::memory::live_objects();
    CHECK(after.tensors == before.tensors);
    CHECK(after.storages == before.storages);
    CHECK(after.nodes == before.nodes);
  }
};
