// A saved graph between function, file and device. Internal to autograd/saved_graph.h.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "warptape/autograd/saved_graph.h"
#include "warptape/core/geometry.h"
#include "warptape/kernels/run_saved.h"

namespace wt::detail {

// Where an operand lies.
struct ProgramPlace {
  enum class Where : u8 { absent, pool, constant, empty };  // empty: there, without elements
  Where where = Where::absent;
  u32 constant = 0;
  u64 offset = 0;  // in bytes
};

// An argument or a result of the whole.
struct ProgramSlot {
  Geometry geometry{};
  ProgramPlace place{};
};

struct ProgramCall {
  std::unique_ptr<AnyLaunch> launch;
  std::string op;                      // the operator's name; empty: none
  std::vector<ProgramPlace> places{};  // of its operands, in the order of its contract's line
  std::deque<Geometry> geometries{};   // of its views
};

struct ProgramConstant {
  u32 lead = 0;  // of its address modulo kSavedAlignment: kernels ask for alignment
  std::vector<char> bytes{};
};
inline constexpr u32 kSavedAlignment = 256;

struct SavedProgram {
  u64 pool_bytes = 0;  // inputs, results, and all between them
  std::vector<ProgramConstant> constants{};
  std::vector<ProgramSlot> inputs{}, results{};
  std::vector<ProgramCall> calls{};
};

// Runs f.
SavedProgram trace_program(const TracedFunction& f, const std::vector<Tensor>& example);
// The calls' arguments may point anywhere.
void write_program(const std::string& path, SavedProgram& p);
// Every place is bounded and aligned; pointers are still to be set.
SavedProgram read_program(const std::string& path, const ParseLimits& limits);

// Elements from a view's first to its last one; 0 for none.
i64 extent_of(const Geometry& g);

}  // namespace wt::detail
