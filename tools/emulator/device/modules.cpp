#include "device/modules.h"

#include <driver_types.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "device/context.h"
#include "device/fatbin.h"
#include "device/gpu.h"

namespace emu {
namespace {

struct Registry {
  std::vector<std::unique_ptr<Module>> modules;  // for ever: queued work may need them
  std::unordered_map<const void*, std::shared_ptr<Function>> by_stub, by_handle;
  std::unordered_map<const void*, Module*> by_variable;
};
Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

struct Wrapper {
  u32 magic, version;
  const void* data;
  const void* const* parts;  // version 2: to be linked
};
constexpr u32 kWrapperMagic = 0x466243b1, kLinked = 2;

int fail(Module& m, int error, std::string why) {
  m.error = error;
  m.why_not = std::move(why);
  note(m.why_not);
  return error;
}

int read_program(Module& m) {
  if (m.error) return m.error;
  if (m.program) return 0;
  std::string what;
  std::string ptx = m.parts ? linked_ptx_for(m.parts, gpu_model().capability(), &what)
                            : ptx_for(m.image, gpu_model().capability(), &what);
  if (ptx.empty())
    return fail(m, cudaErrorNoKernelImageForDevice,
                "no PTX for sm_" + std::to_string(gpu_model().capability()) + ": the program has " +
                    what + ", and the emulator runs PTX only (-arch=compute_80)");
  try {
    m.program = std::make_unique<Program>(std::move(ptx));
    m.program->module();
  } catch (const std::exception& e) {
    m.program = nullptr;
    return fail(m, cudaErrorInvalidPtx, std::string("a module is not understood: ") + e.what());
  }
  return 0;
}

const DeviceVariable* registered(const Module& m, const std::string& name) {
  for (const DeviceVariable& v : m.variables)
    if (v.name == name) return &v;
  return nullptr;
}

u8* bytes_of(u64 address) {
  const Block* b = find_block(address);
  return b ? reinterpret_cast<u8*>(address + u64(b->alias)) : nullptr;
}

int place_variable(Module& m, const ptx::Variable& v, int device) {
  const DeviceVariable* known = registered(m, v.name);
  if (known && known->managed && known->pointer && *known->pointer) {
    m.addresses[device][v.name] = reinterpret_cast<u64>(*known->pointer);
    return 0;
  }
  Block* b = take_block(BlockKind::device, device, std::max<u64>(v.bytes, 1));
  if (!b) return cudaErrorMemoryAllocation;
  b->internal = true;
  m.addresses[device][v.name] = b->begin;
  u8* at = bytes_of(b->begin);
  std::memset(at, 0, v.bytes);
  std::memcpy(at, v.initial.data(), std::min<u64>(v.initial.size(), v.bytes));
  return 0;
}

void place_addresses(Module& m, const ptx::Variable& v, int device) {
  for (const ptx::Variable::Address& a : v.addresses) {
    const auto target = m.addresses[device].find(a.symbol);
    if (target == m.addresses[device].end() || a.at + 8 > v.bytes) continue;
    const u64 value = target->second + u64(a.offset);
    std::memcpy(bytes_of(m.addresses[device][v.name]) + a.at, &value, 8);
  }
}

bool is_placed(const ptx::Variable& v) {
  return !v.is_extern && (v.space == ptx::Space::global || v.space == ptx::Space::constant);
}

}  // namespace

Module* add_module(const void* wrapper) {
  auto m = std::make_unique<Module>();
  Wrapper w;
  std::memcpy(&w, wrapper, sizeof w);
  m->image = w.magic == kWrapperMagic ? w.data : wrapper;
  if (w.magic == kWrapperMagic && w.version == kLinked) m->parts = w.parts;
  registry().modules.push_back(std::move(m));
  return registry().modules.back().get();
}

Module* add_module_of_text(std::string ptx, const void* image) {
  auto m = std::make_unique<Module>();
  m->image = image;
  try {
    m->program = std::make_unique<Program>(std::move(ptx));
    m->program->module();
  } catch (const std::exception& e) {
    m->program = nullptr;
    fail(*m, cudaErrorInvalidPtx, std::string("a module is not understood: ") + e.what());
  }
  registry().modules.push_back(std::move(m));
  return registry().modules.back().get();
}

void remove_module(Module* m) {
  Registry& r = registry();
  for (const auto& f : m->functions) {
    r.by_stub.erase(f->host);
    r.by_handle.erase(f.get());
  }
  for (const DeviceVariable& v : m->variables) r.by_variable.erase(v.host);
  // The image goes with the library that it is part of.
  if (!m->program && !m->error) {
    m->error = cudaErrorCudartUnloading;
    m->why_not = "its library was unloaded";
  }
}

Function* add_function(Module* m, const void* host, const char* name) {
  auto f = std::make_shared<Function>();
  f->host = host;
  f->name = name;
  f->module = m;
  std::fill(std::begin(f->max_dynamic), std::end(f->max_dynamic), -1);
  if (host) registry().by_stub[host] = f;
  registry().by_handle[f.get()] = f;
  m->functions.push_back(f);
  return f.get();
}

void add_variable(Module* m, DeviceVariable v) {
  if (v.host) registry().by_variable[v.host] = m;
  m->variables.push_back(std::move(v));
}

Function* find_function(const void* f) {
  const Registry& r = registry();
  if (const auto at = r.by_stub.find(f); at != r.by_stub.end()) return at->second.get();
  const auto at = r.by_handle.find(f);
  return at == r.by_handle.end() ? nullptr : at->second.get();
}

int load(Module& m, int device) {
  if (const int e = read_program(m)) return e;
  if (m.loaded[device]) return 0;
  start_managed(m);
  const auto& variables = m.program->module().variables;
  for (const ptx::Variable& v : variables)
    if (is_placed(v))
      if (const int e = place_variable(m, v, device)) return e;
  for (const ptx::Variable& v : variables)
    if (is_placed(v)) place_addresses(m, v, device);
  m.loaded[device] = true;
  return 0;
}

int load(Function& f, int device) {
  if (const int e = load(*f.module, device)) return e;
  if (f.kernel) return 0;
  try {
    f.kernel = f.module->program->kernel(f.name);
  } catch (const std::exception& e) {
    note("kernel " + demangled(f.name) + " is not understood: " + e.what());
    return cudaErrorInvalidPtx;
  }
  return f.kernel ? 0 : cudaErrorInvalidDeviceFunction;
}

void start_managed(Module& m) {
  for (DeviceVariable& v : m.variables) {
    if (!v.managed || !v.pointer || *v.pointer) continue;
    Block* b = take_block(BlockKind::managed, current_device(), std::max<u64>(v.bytes, 1));
    if (!b) continue;
    b->internal = true;
    *v.pointer = reinterpret_cast<void*>(b->begin);
    std::memset(*v.pointer, 0, v.bytes);
    if (read_program(m)) continue;
    for (const ptx::Variable& x : m.program->module().variables)
      if (x.name == v.name)
        std::memcpy(*v.pointer, x.initial.data(), std::min<u64>(x.initial.size(), v.bytes));
  }
}

bool find_variable(const void* symbol, int device, u64* address, u64* bytes, int* error) {
  const auto at = registry().by_variable.find(symbol);
  // Managed variables are also known by the address that the program keeps.
  if (at == registry().by_variable.end()) return false;
  Module& m = *at->second;
  if ((*error = load(m, device))) return true;
  for (const DeviceVariable& v : m.variables) {
    if (v.host != symbol) continue;
    const auto place = m.addresses[device].find(v.name);
    if (place == m.addresses[device].end()) return false;
    *address = place->second;
    *bytes = v.bytes;
    return true;
  }
  return false;
}

u64 variable_address(Module& m, const std::string& name, int device) {
  const auto at = m.addresses[device].find(name);
  return at == m.addresses[device].end() ? 0 : at->second;
}

}  // namespace emu
