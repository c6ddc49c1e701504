// Text files from strangers, line by line, with errors that say where. Internal to the readers of
// this folder.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/files/decimal.h"
#include "warptape/core/input_file.h"
#include "warptape/core/parse_limits.h"

namespace wt::data {

struct Line {
  std::string_view text;  // without its end, \n or \r\n
  u64 byte = 0;           // where it begins
  i64 number = 0;         // the first one is 1
};

// Cuts text that lies at byte `base` of a file.
class Lines {
 public:
  Lines(const std::string& path, std::string_view text, u64 base = 0)
      : path_(path), text_(text), base_(base) {}
  const std::string& path() const { return path_; }
  // Where the next line begins.
  u64 byte() const { return base_ + at_; }
  i64 read() const { return number_; }

  // False at the end. A last line may lack its end; an empty one behind the last end is none.
  bool next(Line& line) {
    if (at_ >= text_.size()) return false;
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    line = {text_.substr(at_, end - at_), base_ + at_, ++number_};
    if (line.text.ends_with('\r')) line.text.remove_suffix(1);
    at_ = std::min(end + 1, text_.size());
    return true;
  }
  // The next line; its absence is an error.
  Line require(std::string_view what) {
    Line line;
    if (!next(line))
      data_error(path_, base_ + text_.size(),
                 str("the file ends before ", what, " (truncated download?)"));
    return line;
  }
  [[noreturn]] void fail(const Line& line, const std::string& message) const {
    data_error(path_, line.byte, str("line ", line.number, ": ", message));
  }

  // A whole number or a finite or infinite decimal one, with nothing behind it; 1e-400 is 0.
  template <class T>
  T number(const Line& line, std::string_view word, std::string_view what) const {
    T value{};
    const char* const end = word.data() + word.size();
    // from_chars knows no plus; "+-1" stays wrong.
    const char* begin = word.data();
    if (word.size() > 1 && word[0] == '+' && word[1] != '-') ++begin;
    const auto r = wt::detail::decimal_from_chars(begin, end, value);
    if (r.ec == std::errc::result_out_of_range)
      fail(line, str(what, " '", printable(word, 40), "' is beyond its type"));
    if (r.ec != std::errc{} || r.ptr != end)
      fail(line, str(what, " '", printable(word, 40), "' is not a number"));
    return value;
  }

 private:
  const std::string& path_;
  std::string_view text_;
  u64 base_;
  size_t at_ = 0;
  i64 number_ = 0;
};

// The words of a line, parted by spaces and tabs, in `words`.
inline void split_words(std::string_view line, std::vector<std::string_view>& words) {
  words.clear();
  constexpr std::string_view kBlank = " \t";
  for (size_t at = line.find_first_not_of(kBlank); at < line.size();) {
    const size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlank, end);
  }
}

}  // namespace wt::data
