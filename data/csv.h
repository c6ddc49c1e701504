// Tables of numbers in text: comma-separated values (RFC 4180) and their relatives.
//
//   const data::CsvTable t = data::read_csv("iris.csv", {.categories = {"species"}});
//   data::TensorDataset set{t.columns({"sepal_length", "sepal_width"}),
//                           t.column("species").to(DType::i64)};
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "warptape/core/parse_limits.h"
#include "warptape/core/tensor.h"

namespace wt::data {

// A column by its name, or by its number: 0 is the first one, -1 the last one.
struct CsvColumn {
  std::string name{};  // empty: the number counts
  i64 number = 0;      // negative ones count from the end
  // The column of this name, which is not empty.
  CsvColumn(const char* n) : name(n) {}             // NOLINT: implicit by design
  CsvColumn(std::string n) : name(std::move(n)) {}  // NOLINT
  // The column of this number.
  template <Integer T>
  CsvColumn(T n) : number(Dim(n).value) {}  // NOLINT
};

// How a file is read, and which of its columns.
struct CsvOptions {
  char separator = ',';                 // ';', '\t', ... ; ' ' stands for any run of spaces
  bool header = true;                   // the first line has the columns' names
  std::vector<CsvColumn> columns{};     // which, in which order; empty: all
  std::vector<CsvColumn> categories{};  // columns of words, which become numbers
  DType dtype = DType::f64;             // f64, f32, i64, i32 or u8; integers must be whole and fit
  std::optional<double> missing{};      // what an empty field is; unset: an error
  char comment = 0;                     // lines that begin with it are left out
};

// The columns that read_csv() read, as numbers.
class WT_API CsvTable {
 public:
  std::vector<std::string> names;  // of the columns that were read; "0", "1", ... without a header
  Tensor values;                   // [rows, columns] on the cpu
  // The words of each category column, sorted: word k has the number k. Empty for the others.
  std::vector<std::vector<std::string>> categories;

  // The number of rows, without the header.
  i64 rows() const { return values.size(0); }
  // One column as a tensor of its own, [rows]; its number is its place among those that were read.
  // Throws UsageError for one that was not read, with the near name.
  Tensor column(const CsvColumn& c) const;
  // Some columns in this order, [rows, n], copied. Throws as column().
  Tensor columns(const std::vector<CsvColumn>& list) const;
  // The words of one category column, sorted; none of other columns. Throws UsageError for one that
  // was not read.
  const std::vector<std::string>& words(const CsvColumn& c) const;
};

// Reads a table of numbers: plain text or gzip in UTF-8 (a byte order mark is left out). Fields may
// be quoted ("a ""b""", also over several lines), spaces around unquoted ones do not count, nor do
// empty lines; lines end in \n, \r\n or \r. Numbers are decimal, with nan and inf. Throws DataError
// with the path, the byte, line and column of what is wrong: a field that is no number or beyond
// the type, a row with another number of fields than the first line, a quote that does not end,
// NUL; UsageError for columns that are not there and separators that cannot be told from the text,
// DtypeError for other dtypes.
WT_API CsvTable read_csv(const std::string& path, const CsvOptions& o = {},
                         const ParseLimits& limits = {});

}  // namespace wt::data
