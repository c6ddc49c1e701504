// The functions of core/factories.h that make a tensor, and what fills its memory; a test compares
// the list with the header.
#pragma once

namespace wt::tools {

struct Factory {
  const char* name;
  // "fill": the contract that runs on the tensor's device. "": nothing is written. Null: the host
  // writes the values, which are copied to the device.
  const char* contract;
};
constexpr Factory kFactories[] = {{"empty", ""},
                                  {"empty_like", ""},
                                  {"from_blob", ""},
                                  {"zeros", "fill"},
                                  {"zeros_like", "fill"},
                                  {"ones", "fill"},
                                  {"ones_like", "fill"},
                                  {"full", "fill"},
                                  {"full_like", "fill"},
                                  {"eye", "sequence"},
                                  {"arange", "sequence"},
                                  {"linspace", "sequence"},
                                  {"rand", "random_fill"},
                                  {"rand_like", "random_fill"},
                                  {"randn", "random_fill"},
                                  {"randn_like", "random_fill"},
                                  {"normal", "random_fill"},
                                  {"randint", "random_fill"},
                                  {"randperm", "sort"},
                                  {"tensor", nullptr}};

}  // namespace wt::tools
