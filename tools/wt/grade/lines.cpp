#include "warptape/tools/wt/grade/lines.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <vector>

#include "warptape/tools/wt/confined/process.h"

namespace wt::grade {
namespace {

namespace fs = std::filesystem;

// Of each address its places, innermost first, as addr2line prints them.
std::map<std::string, std::vector<std::string>> look_up(const std::string& program,
                                                        const std::vector<std::string>& addresses) {
  std::map<std::string, std::vector<std::string>> found;
  const char* const path = std::getenv("PATH");
  confined::Process::Start start{
      .command = {"/usr/bin/env", "addr2line", "-a", "-i", "-e", program},
      .environment = {"LC_ALL=C", std::string("PATH=") + (path ? path : "")},
      .folder = fs::path(program).parent_path().string()};
  start.command.insert(start.command.end(), addresses.begin(), addresses.end());
  confined::Process addr2line(start);
  addr2line.wait(confined::Clock::now() + std::chrono::seconds(10));
  std::istringstream in(addr2line.output());
  std::vector<std::string>* places = nullptr;
  size_t next = 0;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("0x") && next < addresses.size())
      places = &found[addresses[next++]];
    else if (places)
      places->push_back(line.substr(0, line.find(" (disc")));
  return found;
}

std::string best_place(const std::vector<std::string>& places, const std::string& own) {
  const auto short_name = [](const std::string& place) {
    return place.substr(place.rfind('/') + 1);
  };
  const std::string file = fs::path(own).filename().string() + ":";
  for (const std::string& p : places)
    if (short_name(p).starts_with(file)) return short_name(p);
  for (const std::string& p : places)
    if (!p.empty() && p[0] != '?') return short_name(p);
  return "";
}

}  // namespace

std::string with_lines(const std::string& text, const std::string& program,
                       const std::string& own) {
  const std::string name = fs::path(program).filename().string() + "+0x";
  struct Mention {
    size_t begin, end;
    std::string address;
  };
  std::vector<Mention> mentions;
  std::vector<std::string> addresses;
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const size_t digits = at + name.size();
    const size_t end = std::min(text.find_first_not_of("0123456789abcdef", digits), text.size());
    // The text is a student's: an address has 16 digits at most, a message some ten of them.
    if (end - digits > 16 || mentions.size() == 64) continue;
    mentions.push_back({at, end, "0x" + text.substr(digits, end - digits)});
    addresses.push_back(mentions.back().address);
  }
  if (mentions.empty()) return text;
  const auto places = look_up(program, addresses);
  std::string result;
  size_t done = 0;
  for (const Mention& m : mentions) {
    const auto found = places.find(m.address);
    const std::string place = found == places.end() ? "" : best_place(found->second, own);
    result += text.substr(done, m.begin - done);
    result += place.empty() ? text.substr(m.begin, m.end - m.begin) : place;
    done = m.end;
  }
  return result + text.substr(done);
}

int first_line(const std::string& text, const std::string& own) {
  const std::string name = fs::path(own).filename().string() + ":";
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1))
    if (const int line = std::atoi(text.c_str() + at + name.size()); line > 0) return line;
  return 0;
}

}  // namespace wt::grade
