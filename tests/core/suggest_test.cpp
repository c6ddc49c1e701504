#include "warptape/core/suggest.h"

#include "warptape/tests/support/catch.h"

using wt::did_you_mean;
using wt::edit_distance;

TEST_CASE("edit_distance counts inserted, deleted, replaced and swapped letters") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("abc", "ABC") == 0);
  CHECK(edit_distance("charlm", "charml") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("ca", "abc") == 3);  // a swapped pair is not edited again
  CHECK(edit_distance(std::string(1000, 'a'), "b") > 64);
}

TEST_CASE("did_you_mean offers what is near, and nothing else") {
  const std::vector<std::string> options{"--batch", "--epochs", "--precision", "--data",
                                         "--device"};
  CHECK(did_you_mean("--epoch", options) == "; did you mean '--epochs'?");
  CHECK(did_you_mean("-epochs", options) == "; did you mean '--epochs'?");
  CHECK(did_you_mean("--bacth", options) == "; did you mean '--batch'?");
  CHECK(did_you_mean("--prec", options) == "; did you mean '--precision'?");
  CHECK(did_you_mean("--d", options) == "");  // the beginning of two
  CHECK(did_you_mean("--resume", options) == "");
  CHECK(did_you_mean("", options) == "");
  const char* devices[] = {"cpu", "simt", "cuda"};
  CHECK(did_you_mean("gpu", devices) == "; did you mean 'cpu'?");
  CHECK(did_you_mean("cud", devices) == "; did you mean 'cuda'?");
  CHECK(did_you_mean("x", devices) == "");
}
