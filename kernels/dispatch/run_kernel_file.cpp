#include "warptape/kernels/dispatch/run_kernel_file.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/input_file.h"

namespace wt::detail {
namespace {

struct FileContract {
  const ErasedContract* contract;
  ErasedContract::List list;
  std::atomic<i64> taken{0}, refused{0};
  std::atomic<const char*> why{nullptr};
};
std::deque<FileContract>& loaded() {
  static auto* const all = new std::deque<FileContract>;
  return *all;
}

FileContract* found(const ErasedContract& c) {
  for (FileContract& f : loaded())
    if (f.contract == &c) return &f;
  return nullptr;
}

// Of `const Variants<Args> wt::NAME_on_simt`.
std::string symbol_of(const char* contract) {
  const std::string name = str(contract, "_on_simt");
  return str("_ZN2wt", name.size(), name, "E");
}

void say_taken() {
  for (const FileContract& f : loaded()) {
    std::fprintf(stderr, "WT_KERNEL_FILE: %s was taken %lld times", f.contract->name,
                 static_cast<long long>(f.taken));
    if (f.refused)
      std::fprintf(stderr, ", and did not take %lld (%s)", static_cast<long long>(f.refused),
                   f.why.load());
    std::fputc('\n', stderr);
  }
}

}  // namespace

std::string kernel_file_stamp() {
  const BuildInfo& b = build_info();
  return str("warptape ", b.version, " ", b.commit, " ", b.compiler);
}

std::string load_kernel_file(const std::string& path) {
  const std::string name = "WT_KERNEL_FILE: " + printable_path(path);
  void* const file = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!file) {
    const char* const why = ::dlerror();
    return str(name, " cannot be loaded: ", why ? printable_lines(why) : "");
  }
  const auto* const stamp = static_cast<const char*>(::dlsym(file, "wt_kernel_file_of"));
  if (!stamp || stamp != kernel_file_stamp())
    return str(name, " was not compiled for this program (", kernel_file_stamp(), ")");
  for (const ContractInfo& c : all_contracts()) {
    // The layout is that of Variants<Args> for all Args.
    const auto* const rows =
        static_cast<const Variants<int>*>(::dlsym(file, symbol_of(c.name).c_str()));
    if (!rows) continue;
    FileContract& f = loaded().emplace_back();
    f.contract = c.erased;
    f.list = {rows->rows, rows->count};
  }
  if (loaded().empty()) return name + " has no variants (WT_VARIANTS(WT_DEVICE_NS, ...))";
  std::atexit(say_taken);
  return "";
}

const ErasedContract::List* file_variants(const ErasedContract& c) {
  const FileContract* const f = found(c);
  return f ? &f->list : nullptr;
}

const void* file_variant(const ErasedContract& c, const char* name, const void* args,
                         const Device& d) {
  FileContract* const f = d.kind == DeviceKind::simt ? found(c) : nullptr;
  if (!f) return nullptr;
  for (int i = 0; i < f->list.count; ++i) {
    const void* const v = variant_of(f->list, i);
    if (!same_name(c.described(v).name, name)) continue;
    int rank;
    const char* const why = c.refusal(v, args, d, rank);
    ++(why ? f->refused : f->taken);
    if (why) f->why = why;
    return why ? nullptr : v;
  }
  return nullptr;
}

}  // namespace wt::detail
