// What the runtime's stand-in offers to the other stand-in libraries: work of their own on an
// emulated stream, and access to device memory. libcudart.so.13 exports these two functions beside
// CUDA's names. Plain C types: the libraries share no code.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

// A range that queued work touches: what the checks between streams and of memory look at.
struct EmuAccess {
  uint64_t address, bytes;  // as the program knows them
  bool write;
};

// Queues `run(state)` on the stream as one operation called `name`; under capture it becomes a
// node, and runs once a launch of its graph. `name` and `accesses` are copied.
void __wt_emu_enqueue(void* stream, const char* name, const EmuAccess* accesses, size_t n,
                      void (*run)(void*), void* state);

// What to add to a device address so that the emulator may touch it; INT64_MIN when the bytes do
// not all lie in one live block.
int64_t __wt_emu_alias(uint64_t address, uint64_t bytes);

// How many findings there were; for tests, which forget those that they provoked.
uint64_t __wt_emu_findings(void);
void __wt_emu_forget_findings(void);
}
