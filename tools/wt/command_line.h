// What the subcommands of `wt` say about their options. CLI11 does the work, in command_line.cpp
// alone: its header is 2.6 CPU seconds of every file that includes it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace wt::tools {

// What an option's value has to be.
struct Check {
  // What is wrong with a value; empty: nothing.
  std::function<std::string(const std::string&)> fault;
  std::string kind;  // for the help: "AT LEAST 1"
};

// An option or a flag of a Command. A handle: copies are the same option.
class Option {
 public:
  explicit Option(CLI::Option* o = nullptr) : o_(o) {}
  explicit operator bool() const { return o_ != nullptr; }

  Option required() const;
  Option check(const Check& c) const;
  Option excludes(Option other) const;  // not both
  Option needs(Option other) const;     // not without it
  Option delimiter(char between_values) const;
  Option one_value_each_time() const;  // of a list: the next word is not one of its values
  Option show_default() const;         // the value that it has now, in the help
  Option hidden() const;               // from the help

 private:
  CLI::Option* o_;
};

// A command, whose options are kept where the references point to, and whose commands follow it. A
// handle: copies are the same command.
class Command {
 public:
  explicit Command(CLI::App* c) : c_(c) {}

  Command add_subcommand(const std::string& name, const std::string& help) const;
  void require_subcommand() const;
  void footer(const std::string& text) const;
  void footer_when_asked(std::function<std::string()> text) const;  // one that costs something
  void callback(std::function<void()> run) const;

  // "--name", or "name" for what stands without one. T: a number, std::string or a list of them.
  template <class T>
  Option add_option(const std::string& name, T& value, const std::string& help = "") const;
  Option add_option_function(const std::string& name, std::function<void(const std::string&)> set,
                             const std::string& help) const;
  Option add_flag(const std::string& name, bool& value, const std::string& help = "") const;

  bool given(const char* name) const;

 private:
  CLI::App* c_;
};

// A program's command line.
class CommandLine {
 public:
  CommandLine(const std::string& help, const std::string& version);
  ~CommandLine();

  Command root() const;
  // Runs the callbacks of what was asked for, or prints --help or --version to stdout. False: it
  // could not be understood, and stderr says why. What callbacks throw passes through.
  bool run(int argc, char** argv) const;

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace wt::tools
