// A module and its kernels, decoded when first launched.
#include <mutex>

#include "exec/decode.h"

namespace emu {

struct Program::Impl {
  std::unique_ptr<ptx::Module> module;
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels;
};

Program::Program(std::string ptx) : impl_(new Impl) {
  impl_->module = ptx::parse_module(std::move(ptx));
}
Program::~Program() = default;

const ptx::Module& Program::module() const { return *impl_->module; }

const Program::Kernel* Program::kernel(const std::string& name) {
  if (const auto it = impl_->kernels.find(name); it != impl_->kernels.end())
    return it->second.get();
  ptx::Function* f = impl_->module->find(name);
  if (!f || !f->is_entry) return nullptr;
  ptx::parse_body(*impl_->module, *f);
  auto kernel = std::make_unique<Kernel>();
  kernel->module = impl_->module.get();
  kernel->body = *f;
  kernel->info.name = name;
  inline_calls(*impl_->module, kernel->body);
  if (f->max_threads[0])
    kernel->info.max_threads =
        f->max_threads[0] * std::max(f->max_threads[1], 1u) * std::max(f->max_threads[2], 1u);
  kernel->info.uses_clusters = f->cluster[0] > 1 || f->cluster[1] > 1 || f->cluster[2] > 1;
  Decoder(*impl_->module, *kernel).run();
  return (impl_->kernels[name] = std::move(kernel)).get();
}

const KernelInfo& info(const Program::Kernel& k) { return k.info; }

}  // namespace emu
