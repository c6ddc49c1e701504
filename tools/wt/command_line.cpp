#include "warptape/tools/wt/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <sstream>

#include "warptape/core/str.h"
#include "warptape/core/suggest.h"
#include "warptape/core/types.h"

namespace wt::tools {
namespace {

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* o : app.get_options())
    for (const std::string& n : o->get_lnames()) names.push_back("--" + n);
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  return names;
}

// What CLI11 could not use, with the near name.
void print_usage_error(const CLI::App& app, const CLI::ParseError& e) {
  const CLI::App* at = &app;
  std::string command;  // "bench kernels "
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    command += at->get_name() + " ";
  }
  std::string text = e.what();
  for (const std::string& word : at->remaining(true)) {
    const std::string bare = word.substr(0, word.find('='));
    text = str("'", bare, "' is not known here", did_you_mean(bare, names_of(*at)));
    break;
  }
  std::fprintf(stderr, "wt: %s\n", printable_lines(text).c_str());
  std::fprintf(stderr, "wt %s--help lists what there is\n", command.c_str());
}

}  // namespace

Option Option::required() const { return Option(o_->required()); }
Option Option::check(const Check& c) const {
  const auto fault = c.fault;
  return Option(
      o_->check(CLI::Validator([fault](std::string& text) { return fault(text); }, c.kind)));
}
Option Option::excludes(Option other) const { return Option(o_->excludes(other.o_)); }
Option Option::needs(Option other) const { return Option(o_->needs(other.o_)); }
Option Option::delimiter(char between) const { return Option(o_->delimiter(between)); }
Option Option::one_value_each_time() const { return Option(o_->allow_extra_args(false)); }
Option Option::show_default() const { return Option(o_->capture_default_str()); }
Option Option::hidden() const { return Option(o_->group("")); }

Command Command::add_subcommand(const std::string& name, const std::string& help) const {
  return Command(c_->add_subcommand(name, help));
}
void Command::require_subcommand() const { c_->require_subcommand(1); }
void Command::footer(const std::string& text) const { c_->footer(text); }
void Command::footer_when_asked(std::function<std::string()> text) const {
  c_->footer([text = std::move(text)] {  // CLI11 ends what such a function gives with a line's end
    std::string made = text();
    if (made.ends_with('\n')) made.pop_back();
    return made;
  });
}
void Command::callback(std::function<void()> run) const { c_->callback(std::move(run)); }

template <class T>
Option Command::add_option(const std::string& name, T& value, const std::string& help) const {
  return Option(c_->add_option(name, value, help));
}
#define WT_OPTION_OF(T) \
  template Option Command::add_option(const std::string&, T&, const std::string&) const;
WT_OPTION_OF(int)
WT_OPTION_OF(i64)
WT_OPTION_OF(u64)
WT_OPTION_OF(double)
WT_OPTION_OF(std::string)
WT_OPTION_OF(std::vector<int>)
WT_OPTION_OF(std::vector<i64>)
WT_OPTION_OF(std::vector<std::string>)

Option Command::add_option_function(const std::string& name,
                                    std::function<void(const std::string&)> set,
                                    const std::string& help) const {
  return Option(c_->add_option_function<std::string>(name, set, help));
}
Option Command::add_flag(const std::string& name, bool& value, const std::string& help) const {
  return Option(c_->add_flag(name, value, help));
}
bool Command::given(const char* name) const { return c_->count(name) > 0; }

CommandLine::CommandLine(const std::string& help, const std::string& version)
    : app_(std::make_unique<CLI::App>(help)) {
  app_->set_version_flag("--version", version);
}
CommandLine::~CommandLine() = default;

Command CommandLine::root() const { return Command(app_.get()); }

bool CommandLine::run(int argc, char** argv) const {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& e) {
    std::ostringstream text;  // of --help, --version; std::cout would forget why it failed
    app_->exit(e, text, text);
    std::fputs(text.str().c_str(), stdout);
  } catch (const CLI::ParseError& e) {
    print_usage_error(*app_, e);
    return false;
  }
  return true;
}

}  // namespace wt::tools
