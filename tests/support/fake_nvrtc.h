// A compiler of kernels that compiles nothing: its code says for what, how often and with what it
// was called. While one exists, kernels/jit/ uses it, and has forgotten what it knew before.
#pragma once
#include <string>
#include <vector>

#include "warptape/kernels/jit/kernel.h"
#include "warptape/kernels/jit/nvrtc.h"

namespace wt_test {

class FakeNvrtc {
 public:
  FakeNvrtc() {
    f() = this;
    api.version = [](int* major, int* minor) { return *major = 13, *minor = 0, 0; };
    api.create = [](void** p, const char* source, const char*, int, const char* const*,
                    const char* const*) {
      *p = new Program{source};
      return 0;
    };
    api.destroy = [](void** p) { return delete of(*p), 0; };
    api.add_name = [](void* p, const char* name) { return of(p)->name = name, 0; };
    api.compile = [](void* p, int count, const char* const* options) -> int {
      Program& program = *of(p);
      for (int i = 0; i < count; ++i) program.code += std::string(options[i]) + " ";
      program.ptx = program.code.find("compute_") != std::string::npos;
      ++f()->compilations;
      if (program.code.find("-unknown") != std::string::npos) return wt::jit::kNvrtcInvalidOption;
      const bool has = program.source.find(program.name + "(") != std::string::npos;
      if (has && program.source.find("wrong") == std::string::npos) return wt::jit::kNvrtcSuccess;
      program.log = "kernel.cu(2): error: that is wrong\n";
      return wt::jit::kNvrtcCompilation;
    };
    api.log_size = [](void* p, size_t* n) { return *n = of(p)->log.size() + 1, 0; };
    api.log = [](void* p, char* to) { return of(p)->log.copy(to, of(p)->log.size()), 0; };
    api.ptx_size = [](void* p, size_t* n) { return *n = of(p)->text().size(), 0; };
    api.ptx = [](void* p, char* to) { return of(p)->text().copy(to, size_t(-1)), 0; };
    api.cubin_size = api.ptx_size;
    api.cubin = api.ptx;
    api.lowered_name = [](void* p, const char*, const char** name) {
      return *name = of(p)->name.c_str(), 0;
    };
    api.error_text = [](int code) { return code == 6 ? "NVRTC_ERROR_COMPILATION" : "an error"; };
    api.file = "libfake.so";
    api.version_text = "13.0";
    api.targets = {75, 80, 90};
    found.api = &api;
    wt::jit::replace_nvrtc(&found);
    wt::jit::forget_kernels();
  }
  ~FakeNvrtc() {
    wt::jit::replace_nvrtc(nullptr);
    wt::jit::forget_kernels();
  }
  FakeNvrtc(const FakeNvrtc&) = delete;

  wt::jit::Nvrtc api{};
  wt::jit::NvrtcFound found{};
  int compilations = 0;

 private:
  struct Program {
    std::string source;
    std::string name{}, code{}, log{};
    bool ptx = false;
    // Ends with a zero, as PTX does.
    std::string text() const {
      std::string t = ptx ? "// PTX " : "ELF ";
      const size_t at = source.find("void ");
      const std::string entry =
          at == source.npos ? "" : source.substr(at + 5, source.find('(', at) - at - 5);
      return t + code + "\n.entry " + entry + "(\n" + '\0';
    }
  };
  static Program* of(void* p) { return static_cast<Program*>(p); }
  static FakeNvrtc*& f() {
    static FakeNvrtc* fake = nullptr;
    return fake;
  }
};

}  // namespace wt_test
