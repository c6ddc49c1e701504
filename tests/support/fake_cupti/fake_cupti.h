// What tests ask of the library without a GPU.
#pragma once

extern "C" {

// Work of a device: a kernel with a function, a copy with a kind (1: to the device), else a fill.
struct FakeNode {
  const char* function;
  int copy_kind;
  long long bytes, ns;
};
// A call of this thread that queues so many: all have one correlation.
void fake_cupti_call(const FakeNode* nodes, int count, unsigned stream);
// "subscribers", "enabled" (kinds), "buffers" (held now), "most buffers", "calls", "ids" (open on
// this thread).
long long fake_cupti_count(const char* what);
}
