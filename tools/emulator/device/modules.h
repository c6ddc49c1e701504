// What nvcc's stubs register at start-up: modules (fat binaries), their kernels and variables.
// Nothing of them is read before the first use.
#pragma once
#include <memory>

#include "device/op.h"

namespace emu {

struct Function;

struct DeviceVariable {
  const void* host = nullptr;  // the program's shadow of it, by which it asks
  std::string name;
  u64 bytes = 0;
  bool managed = false;
  void** pointer = nullptr;  // managed: where the program keeps the address
};

struct Module {
  const void* image = nullptr;
  const void* const* parts = nullptr;  // images to be linked into one; null: `image` is whole
  std::unique_ptr<Program> program;
  std::string why_not;  // it cannot be used
  int error = 0;
  std::vector<DeviceVariable> variables;
  std::vector<std::shared_ptr<Function>> functions;
  std::map<std::string, u64> addresses[16];  // of variables, by device
  bool loaded[16] = {};
};

struct Function {
  const void* host = nullptr;
  std::string name;
  Module* module = nullptr;
  const Program::Kernel* kernel = nullptr;
  int max_dynamic[16];  // -1: not asked for
  int carveout = -1, launches = 0;
  bool nonportable_clusters = false;
};

Module* add_module(const void* wrapper);
Module* add_module_of_text(std::string ptx, const void* image);
void remove_module(Module* m);
Function* add_function(Module* m, const void* host, const char* name);
void add_variable(Module* m, DeviceVariable v);

// By the host's stub, or by a cudaKernel_t, cudaFunction_t, which is the Function. Null: unknown.
Function* find_function(const void* f);
// cudaError_t; 0 and f.kernel set: it can be launched on the device.
int load(Function& f, int device);
int load(Module& m, int device);

// Of a variable on a device; false: no such symbol.
bool find_variable(const void* symbol, int device, u64* address, u64* bytes, int* error);
u64 variable_address(Module& m, const std::string& name, int device);
// Managed variables have their address before anything runs.
void start_managed(Module& m);

}  // namespace emu
