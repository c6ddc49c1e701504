// Names of kernels' functions as people read them. Internal.
#pragma once
#include <string>

namespace wt::profiler {

// Of a mangled name: the function without result, parameters and namespaces, with its template
// arguments where they are short: "softmax_rows<float, 4>", "gemm<...>". Other names stay.
std::string function_name(const char* mangled);
// The same, made once; lives as long as the process.
const char* interned_function(const char* mangled);

}  // namespace wt::profiler
