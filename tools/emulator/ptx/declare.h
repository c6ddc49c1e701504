// Declarations of variables, which modules, parameter lists and bodies share.
#pragma once
#include "ptx/lexer.h"

namespace emu::ptx {

// The space that a directive names ("global"), or none.
Space space_of(std::string_view directive);

// After ".global": the rest, `.align 4 .b8 x[12] = {...}, y;`, to the semicolon.
void parse_variables(Lexer& in, Space space, bool is_extern, std::vector<Variable>* out);

// "(.param .b64 x, .param .align 8 .b8 y[16])"
std::vector<Variable> parse_parameters(Lexer& in);

// After ".loc": its place, and the place that `inlined_at` gives.
Location parse_loc(Lexer& in);

}  // namespace emu::ptx
