#include <unordered_map>

#include "ptx/declare.h"

namespace emu::ptx {
namespace {

class ModuleParser {
 public:
  explicit ModuleParser(Module& m) : module_(m), in_(m.text, 0, m.text.size(), 1) {}

  void run() {
    while (in_.peek() != '\0') item();
    if (module_.version_major == 0) in_.fail("no .version: this is not PTX");
  }

 private:
  void item() {
    if (in_.peek() != '.') in_.unexpected("a directive");
    const std::string_view d = in_.directive();
    if (d == "version") {
      version();
    } else if (d == "target") {
      module_.target = in_.name();
      while (in_.take(',')) in_.name();
    } else if (d == "address_size") {
      module_.address_bits = in_.count();
      if (module_.address_bits != 64) in_.fail("only 64-bit addresses are known");
    } else if (d == "file") {
      file();
    } else if (d == "section") {
      in_.directive();
      in_.skip_braces(true);  // a text cut off at a zero byte ends here
    } else if (d == "pragma") {
      in_.string();
      in_.expect(';');
    } else if (d == "loc") {
      parse_loc(in_);
    } else {
      declaration(d);
    }
  }

  void version() {
    const std::string_view text = module_.text;
    in_.skip_blank();
    u64 at = in_.at();
    const auto number = [&] {
      u32 n = 0;
      for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        n = n * 10 + u32(text[at] - '0');
      }
      return n;
    };
    module_.version_major = number();
    if (at >= text.size() || text[at] != '.') in_.unexpected("a version");
    ++at;
    module_.version_minor = number();
    in_ = Lexer(module_.text, at, text.size(), in_.line());
  }

  void file() {
    const u32 number = in_.count();
    if (number > 1000000) in_.fail(".file with a number too large");
    if (module_.files.size() <= number) module_.files.resize(number + 1);
    module_.files[number] = in_.string();
    while (in_.take(',')) in_.count();  // time stamp, size
  }

  // Linkage, then a function or variables.
  void declaration(std::string_view d) {
    bool is_extern = false;
    for (;; d = in_.directive()) {
      if (d == "extern") {
        is_extern = true;
      } else if (d != "visible" && d != "weak" && d != "common") {
        break;
      }
    }
    const Space space = space_of(d);
    if (d == "entry" || d == "func") {
      function(d == "entry");
    } else if (space != Space::none && space != Space::reg && space != Space::param) {
      parse_variables(in_, space, is_extern, &module_.variables);
    } else {
      in_.fail("unknown directive ." + std::string(d));
    }
  }

  void function(bool is_entry) {
    auto f = std::make_unique<Function>();
    f->is_entry = is_entry;
    while (in_.peek() == '.') in_.directive();  // .noreturn
    if (in_.peek() == '(') f->returns = parse_parameters(in_);
    f->name = in_.name();
    if (in_.peek() == '(') f->params = parse_parameters(in_);
    while (in_.peek() == '.') attribute(*f);
    f->body_line = in_.line();
    f->is_declaration = in_.take(';');
    if (!f->is_declaration) {
      if (in_.peek() != '{') in_.unexpected("the body of " + f->name);
      f->body_begin = in_.at();
      f->body_line = in_.line();
      in_.skip_braces(false);
      f->body_end = in_.at();
    }
    add(std::move(f));
  }

  // Between parameters and body. Register and cluster limits are ptxas's and the launch's business.
  void attribute(Function& f) {
    const std::string_view d = in_.directive();
    if (d == "maxntid" || d == "reqntid") {
      dimensions(f.max_threads);
      f.threads_required = f.threads_required || d == "reqntid";
    } else if (d == "minnctapersm") {
      f.min_blocks = in_.count();
    } else if (d == "reqnctapercluster") {
      dimensions(f.cluster);
    } else if (d == "pragma") {
      in_.string();
      in_.expect(';');
    } else if (d == "maxnreg" || d == "maxclusterrank" || d == "maxnctapersm" ||
               d == "abi_preserve" || d == "abi_preserve_control") {
      in_.count();
    } else if (d == "attribute") {
      in_.skip_parentheses();
    } else if (d != "explicitcluster" && d != "noreturn" && d != "blocksareclusters") {
      in_.fail("unknown directive ." + std::string(d) + " of " + f.name);
    }
  }

  void dimensions(u32 (&out)[3]) {
    out[0] = in_.count();
    out[1] = out[2] = 1;
    for (u32 i = 1; i < 3 && in_.take(','); ++i) out[i] = in_.count();
  }

  // A definition takes the place of the declarations before it, which calls may already name.
  void add(std::unique_ptr<Function> f) {
    Function*& known = by_name_[f->name];
    if (!known) {
      known = f.get();
      module_.functions.push_back(std::move(f));
    } else if (!f->is_declaration) {
      if (!known->is_declaration) in_.fail(f->name + " is defined twice");
      *known = std::move(*f);
    }
  }

  Module& module_;
  Lexer in_;
  std::unordered_map<std::string, Function*> by_name_;
};

}  // namespace

std::unique_ptr<Module> parse_module(std::string text) {
  auto m = std::make_unique<Module>();
  m->text = std::move(text);
  // What the driver API takes is a C string; fat binaries pad it with zeros.
  if (const u64 zero = m->text.find('\0'); zero != std::string::npos) m->text.resize(zero);
  m->files.emplace_back();
  ModuleParser(*m).run();
  return m;
}

}  // namespace emu::ptx
