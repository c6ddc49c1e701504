// A table of many reports. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/tools/wt/lab/class_key.h"

namespace wt::labs {

struct TableOptions {
  std::vector<std::string> reports{};
  ClassKey of_class{};   // empty: none is given
  bool recheck = false;  // grade the sources again, with the class's seed or else fresh ones
  double seconds = 20;   // of check_lab()
  enum class Form { text, json, csv } form = Form::text;
};

struct TableRow {
  std::string path{}, student{}, lab{};
  int number = 0, points = 0;
  bool passed = false, challenge = false;
  int hints = 0;        // taken
  std::string state{};  // "as written", "EDITED", ...
  int rechecked = -1;   // points; -1: not done
};

// Of every file that is a report; of others a row with the error as its state.
std::vector<TableRow> table_rows(const TableOptions& o);
std::string table_text(const std::vector<TableRow>& rows, const TableOptions& o);

}  // namespace wt::labs
