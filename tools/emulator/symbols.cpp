#include "symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

namespace emu {
namespace {

struct Symbol {
  u64 at, bytes;
  std::string name;
};

// Functions of one ELF file; of the full table where it was not stripped.
std::vector<Symbol> read_symbols(const char* path) {
  std::vector<Symbol> all;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) return all;
  const u64 size = u64(status.st_size);
  void* map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (map == MAP_FAILED) return all;
  const u8* p = static_cast<const u8*>(map);
  const auto* head = reinterpret_cast<const Elf64_Ehdr*>(p);
  const auto inside = [&](u64 at, u64 bytes) { return at <= size && bytes <= size - at; };
  if (size > sizeof *head && !std::memcmp(head->e_ident, ELFMAG, SELFMAG) &&
      inside(head->e_shoff, u64(head->e_shnum) * sizeof(Elf64_Shdr))) {
    const auto* sections = reinterpret_cast<const Elf64_Shdr*>(p + head->e_shoff);
    for (const u32 wanted : {u32(SHT_SYMTAB), u32(SHT_DYNSYM)}) {
      for (int i = 0; i < head->e_shnum && all.empty(); ++i) {
        const Elf64_Shdr& s = sections[i];
        if (s.sh_type != wanted || s.sh_link >= head->e_shnum) continue;
        const Elf64_Shdr& names = sections[s.sh_link];
        if (!inside(s.sh_offset, s.sh_size) || !inside(names.sh_offset, names.sh_size)) continue;
        const auto* symbols = reinterpret_cast<const Elf64_Sym*>(p + s.sh_offset);
        for (u64 n = 0; n < s.sh_size / sizeof(Elf64_Sym); ++n) {
          const Elf64_Sym& x = symbols[n];
          if (ELF64_ST_TYPE(x.st_info) != STT_FUNC || !x.st_value) continue;
          if (x.st_name >= names.sh_size) continue;
          all.push_back({x.st_value, x.st_size,
                         reinterpret_cast<const char*>(p + names.sh_offset + x.st_name)});
        }
      }
    }
  }
  munmap(map, size);
  std::sort(all.begin(), all.end(), [](const Symbol& a, const Symbol& b) { return a.at < b.at; });
  return all;
}

struct Object {
  std::string path;
  u64 bias = 0, begin = 0, end = 0;  // of the segment that holds the address
};

Object object_of(u64 address) {
  struct Search {
    u64 address;
    Object found;
  } search{address, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* i, size_t, void* data) {
        auto* s = static_cast<Search*>(data);
        for (int n = 0; n < i->dlpi_phnum; ++n) {
          const auto& h = i->dlpi_phdr[n];
          const u64 begin = i->dlpi_addr + h.p_vaddr;
          if (h.p_type != PT_LOAD || s->address - begin >= h.p_memsz) continue;
          const char* name = i->dlpi_name && *i->dlpi_name ? i->dlpi_name : "/proc/self/exe";
          s->found = {name, i->dlpi_addr, begin, begin + h.p_memsz};
          return 1;
        }
        return 0;
      },
      &search);
  return search.found;
}

const std::vector<Symbol>& symbols_of(const std::string& path) {
  static auto* files = new std::map<std::string, std::vector<Symbol>>;
  const auto at = files->find(path);
  return at != files->end() ? at->second : ((*files)[path] = read_symbols(path.c_str()));
}

std::string base_name(const std::string& path) {
  std::string whole = path;
  if (path == "/proc/self/exe") {
    char text[4096];
    const ssize_t n = readlink(path.c_str(), text, sizeof text);
    if (n > 0) whole.assign(text, size_t(n));
  }
  return whole.substr(whole.rfind('/') + 1);
}

}  // namespace

Frame name_frame(const void* address) {
  // A return address may be the first byte of the next function.
  const u64 at = reinterpret_cast<u64>(address) - 1;
  const Object o = object_of(at);
  Frame f;
  if (o.path.empty()) return f;
  f.file = base_name(o.path);
  f.offset = at - o.bias;
  const auto& symbols = symbols_of(o.path);
  auto next = std::upper_bound(symbols.begin(), symbols.end(), f.offset,
                               [](u64 x, const Symbol& s) { return x < s.at; });
  if (next == symbols.begin()) return f;
  const Symbol& s = *--next;
  if (s.bytes && f.offset >= s.at + s.bytes) return f;
  f.name = demangled(s.name);
  f.offset -= s.at;
  return f;
}

bool is_own_code(const void* address) {
  static const Object own = object_of(reinterpret_cast<u64>(&is_own_code));
  static const bool shared = own.path != "/proc/self/exe";
  const u64 at = reinterpret_cast<u64>(address);
  return shared && at >= own.begin && at < own.end;
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text ? text : name;
  std::free(text);
  return result;
}

}  // namespace emu
