#include "warptape/data/csv.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "warptape/core/factories.h"
#include "warptape/core/files/decimal.h"
#include "warptape/core/input_file.h"
#include "warptape/core/suggest.h"
#include "warptape/data/bytes.h"

namespace wt::data {
namespace {

constexpr double kBeyondF32 = 0x1.ffffffp127;  // rounds to infinity

// One field of the text, and where it stands.
struct Field {
  std::string_view text;
  u64 byte = 0;
  i64 line = 1;
  bool quoted = false;
};

// Cuts the text into rows of fields.
class Rows {
 public:
  Rows(const std::string& path, std::string_view text, const CsvOptions& o, const ParseLimits& l)
      : path_(path), text_(text), o_(o), limits_(l) {
    if (text_.starts_with("\xef\xbb\xbf")) pos_ = 3;
  }

  // The next row that is not empty; false at the end. The fields live until the next call.
  bool next(std::vector<Field>& fields) {
    fields.clear();
    unquoted_.clear();
    skip_lines();
    if (pos_ >= text_.size()) return false;
    for (;;) {
      if (fields.size() >= limits_.max_items)
        data_error(path_, pos_, str("line ", line_, ": more than ", limits_.max_items, " fields"));
      fields.push_back(field());
      if (o_.separator == ' ') skip_spaces();
      if (end_of_line()) return true;
      if (o_.separator != ' ') ++pos_;
    }
  }
  i64 line() const { return line_; }
  u64 byte() const { return pos_; }

 private:
  bool at(char c) const { return pos_ < text_.size() && text_[pos_] == c; }
  bool blank(char c) const { return c == ' ' || (c == '\t' && o_.separator != '\t'); }
  void skip_spaces() {
    while (pos_ < text_.size() && blank(text_[pos_])) ++pos_;
  }
  bool end_of_line() {
    if (pos_ >= text_.size()) return true;
    if (!at('\n') && !at('\r')) return false;
    pos_ += text_.substr(pos_, 2) == "\r\n" ? 2 : 1;
    ++line_;
    return true;
  }
  void skip_lines() {
    while (pos_ < text_.size()) {
      const u64 start = pos_;
      skip_spaces();
      if (end_of_line()) continue;
      if (o_.comment && at(o_.comment)) {
        pos_ = std::min(text_.find_first_of("\r\n", pos_), text_.size());
        continue;
      }
      pos_ = o_.separator == ' ' ? pos_ : start;
      return;
    }
  }

  Field field() {
    skip_spaces();
    Field f;
    f.byte = pos_;
    f.line = line_;
    if (at('"')) {
      quoted(f);
    } else {
      while (pos_ < text_.size() && text_[pos_] != o_.separator && text_[pos_] != '\n' &&
             text_[pos_] != '\r' && !(o_.separator == ' ' && blank(text_[pos_])))
        ++pos_;
      u64 end = pos_;
      while (end > f.byte && blank(text_[end - 1])) --end;
      f.text = text_.substr(f.byte, end - f.byte);
    }
    if (f.text.size() > limits_.max_string)
      data_error(path_, f.byte,
                 str("line ", f.line, ": a field of ", f.text.size(), " bytes, the limit is ",
                     limits_.max_string));
    return f;
  }
  void quoted(Field& f) {
    f.quoted = true;
    std::string out;
    bool doubled = false;
    const u64 start = ++pos_;
    for (;; ++pos_) {
      if (pos_ >= text_.size())
        data_error(path_, f.byte, str("line ", f.line, ": a quote that does not end"));
      if (at('\n') || (at('\r') && text_.substr(pos_, 2) != "\r\n")) ++line_;
      if (text_[pos_] != '"') continue;
      if (pos_ + 1 >= text_.size() || text_[pos_ + 1] != '"') break;
      doubled = true;
      ++pos_;
    }
    f.text = text_.substr(start, pos_ - start);
    ++pos_;
    if (doubled) {
      for (size_t i = 0; i < f.text.size(); ++i) {
        out += f.text[i];
        i += f.text[i] == '"';
      }
      unquoted_.push_back(std::make_unique<std::string>(std::move(out)));
      f.text = *unquoted_.back();
    }
    const u64 before = pos_;
    skip_spaces();
    const bool ends = pos_ >= text_.size() || at('\n') || at('\r') || at(o_.separator);
    if (!ends && (o_.separator != ' ' || pos_ == before))
      data_error(path_, pos_, str("line ", line_, ": text after the closing quote"));
  }

  const std::string& path_;
  std::string_view text_;
  const CsvOptions& o_;
  const ParseLimits& limits_;
  u64 pos_ = 0;
  i64 line_ = 1;
  std::vector<std::unique_ptr<std::string>> unquoted_;
};

size_t find_column(const std::vector<std::string>& names, const CsvColumn& c,
                   const std::string& where) {
  const i64 n = i64(names.size());
  if (c.name.empty()) {
    const i64 k = c.number < 0 ? c.number + n : c.number;
    if (k < 0 || k >= n)
      throw UsageError(str("[csv] ", where, " has no column ", c.number, ", it has ", n));
    return size_t(k);
  }
  const auto found = std::find(names.begin(), names.end(), c.name);
  if (found == names.end())
    throw UsageError(str("[csv] ", where, " has no column '", printable(c.name), "'",
                         did_you_mean(c.name, names)));
  return size_t(found - names.begin());
}

// From text to the table's elements.
class Builder {
 public:
  Builder(const std::string& path, const CsvOptions& o) : path_(path), o_(o) {
    const bool fits = o.dtype == DType::f64 || o.dtype == DType::f32 || o.dtype == DType::i64 ||
                      o.dtype == DType::i32 || o.dtype == DType::u8;
    if (!fits)
      throw DtypeError(str("[csv] values of ", dtype_name(o.dtype),
                           " are not read\n  Try f64, f32, i64, i32 or u8"));
    if (o.separator == '"' || o.separator == '\n' || o.separator == '\r' || o.separator == 0 ||
        (o.comment && o.comment == o.separator))
      throw UsageError("[csv] this separator cannot be told from the rest of the text");
  }

  void set_names(std::vector<std::string> all) {
    names_ = std::move(all);
    for (const CsvColumn& c : o_.columns) wanted_.push_back(find_column(names_, c, path_));
    if (o_.columns.empty())
      for (size_t i = 0; i < names_.size(); ++i) wanted_.push_back(i);
    is_category_.assign(names_.size(), false);
    for (const CsvColumn& c : o_.categories) is_category_[find_column(names_, c, path_)] = true;
    words_.resize(names_.size());
  }
  size_t width() const { return names_.size(); }

  void add(const std::vector<Field>& row, i64 line) {
    if (row.size() != names_.size())
      data_error(path_, row[0].byte,
                 str("line ", line, " has ", row.size(), " fields, the first one ", names_.size()));
    for (const size_t k : wanted_) is_category_[k] ? word(k, row[k]) : number(k, row[k]);
    ++rows_;
  }

  CsvTable finish() {
    CsvTable t;
    for (const size_t k : wanted_) t.names.push_back(names_[k]);
    // Words in sorted order, whatever the order of the rows.
    std::vector<std::vector<i64>> rank(names_.size());
    for (const size_t k : wanted_) {
      auto& list = t.categories.emplace_back();
      if (!is_category_[k]) continue;
      rank[k].resize(words_[k].size());
      for (const auto& [word, first_seen] : words_[k]) {
        rank[k][size_t(first_seen)] = i64(list.size());
        list.push_back(word);
      }
    }
    const i64 columns = i64(wanted_.size());
    const CategoryScope scope(Category::dataset);
    const bool whole = o_.dtype != DType::f64 && o_.dtype != DType::f32;
    for (i64 r = 0; r < rows_; ++r)
      for (i64 c = 0; c < columns; ++c)
        if (const auto& of = rank[wanted_[size_t(c)]]; !of.empty()) {
          if (whole)
            integers_[size_t(r * columns + c)] = of[size_t(integers_[size_t(r * columns + c)])];
          else
            floats_[size_t(r * columns + c)] = double(of[size_t(floats_[size_t(r * columns + c)])]);
        }
    const TensorOptions host{.dtype = o_.dtype, .device = Device::cpu()};
    t.values = (whole ? tensor(integers_, host) : tensor(floats_, host)).view({rows_, columns});
    return t;
  }

 private:
  [[noreturn]] void fail(size_t k, const Field& f, const std::string& why) const {
    data_error(
        path_, f.byte,
        str("line ", f.line, ", column ", k + 1, " ('", printable(names_[k], 40), "'): ", why));
  }
  void word(size_t k, const Field& f) {
    if (f.text.empty() && !f.quoted) fail(k, f, "a category is missing");
    const auto [at, added] = words_[k].try_emplace(std::string(f.text), i64(words_[k].size()));
    push(k, f, double(at->second), at->second);
  }
  void push(size_t k, const Field& f, double x, i64 i) {
    switch (o_.dtype) {
      case DType::i32:
        if (i != i32(i)) fail(k, f, str(i, " does not fit into i32"));
        break;
      case DType::u8:
        if (i < 0 || i > 255) fail(k, f, str(i, " does not fit into u8"));
        break;
      case DType::i64:
        break;
      default:
        // An infinity in the file is meant, one that the type would make is not.
        if (o_.dtype == DType::f32 && std::isfinite(x) && std::abs(x) >= kBeyondF32)
          fail(k, f, (f.text.empty() ? str(x) : shown(f)) + " is beyond f32");
        floats_.push_back(x);
        return;
    }
    integers_.push_back(i);
  }
  void number(size_t k, const Field& f) {
    const bool whole = o_.dtype != DType::f64 && o_.dtype != DType::f32;
    std::string_view s = f.text;
    if (s.empty()) {
      if (!o_.missing) fail(k, f, "the value is missing");
      const double m = *o_.missing;
      if (whole && !(m == std::floor(m) && std::abs(m) < 0x1p53))
        fail(k, f, str("the value for missing ones, ", m, ", is no whole number"));
      push(k, f, m, whole ? i64(m) : 0);
      return;
    }
    if (s[0] == '+' && s.size() > 1 && s[1] != '-') s.remove_prefix(1);
    const char* const end = s.data() + s.size();
    if (whole) {
      i64 i = 0;
      const auto r = std::from_chars(s.data(), end, i);
      if (r.ec == std::errc::result_out_of_range) fail(k, f, shown(f) + " does not fit into i64");
      if (r.ec != std::errc{} || r.ptr != end) fail(k, f, shown(f) + " is not a whole number");
      push(k, f, 0, i);
      return;
    }
    double x = 0;
    const auto r = wt::detail::decimal_from_chars(s.data(), end, x);
    if (r.ec == std::errc::result_out_of_range) fail(k, f, shown(f) + " is beyond f64");
    if (r.ec != std::errc{} || r.ptr != end) fail(k, f, shown(f) + " is not a number");
    push(k, f, x, 0);
  }
  static std::string shown(const Field& f) { return "'" + printable(f.text, 40) + "'"; }

  const std::string& path_;
  const CsvOptions& o_;
  std::vector<std::string> names_;
  std::vector<size_t> wanted_;
  std::vector<bool> is_category_;
  std::vector<std::map<std::string, i64>> words_;  // word -> number by first appearance
  std::vector<double> floats_;
  std::vector<i64> integers_;
  i64 rows_ = 0;
};

std::vector<std::string> header_names(const std::string& path, const std::vector<Field>& row) {
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  for (const Field& f : row) {
    if (!seen.insert(f.text).second)
      data_error(path, f.byte,
                 str("line ", f.line, ": two columns are named '", printable(f.text), "'"));
    names.emplace_back(f.text);
  }
  return names;
}

}  // namespace

CsvTable read_csv(const std::string& path, const CsvOptions& o, const ParseLimits& limits) {
  Builder table(path, o);
  const std::vector<u8> bytes = read_text(path, limits);
  Rows rows(path, text_of(bytes), o, limits);
  std::vector<Field> row;
  if (!rows.next(row)) data_error(path, 0, "the table is empty");
  if (o.header) {
    table.set_names(header_names(path, row));
  } else {
    std::vector<std::string> names;
    for (size_t i = 0; i < row.size(); ++i) names.push_back(std::to_string(i));
    table.set_names(std::move(names));
    table.add(row, row[0].line);
  }
  while (rows.next(row)) table.add(row, row[0].line);
  return table.finish();
}

const std::vector<std::string>& CsvTable::words(const CsvColumn& c) const {
  return categories[find_column(names, c, "the table")];
}
Tensor CsvTable::column(const CsvColumn& c) const {
  return values.select(1, i64(find_column(names, c, "the table"))).contiguous();
}

Tensor CsvTable::columns(const std::vector<CsvColumn>& list) const {
  std::vector<i64> at;
  for (const CsvColumn& c : list) at.push_back(i64(find_column(names, c, "the table")));
  const i64 width = i64(at.size());
  Tensor out = empty({rows(), width}, {.dtype = values.dtype(), .device = Device::cpu()});
  const NoGrad no_grad;
  for (i64 k = 0; k < width; ++k) {
    Tensor to = out.select(1, k);
    to.copy_(values.select(1, at[size_t(k)]));
  }
  return out;
}

}  // namespace wt::data
