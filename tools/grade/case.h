// One launch as it goes from the grader to the program that a student's kernel is linked into, and
// what comes back. Plain data over a pair of pipes: both ends are of one build. Internal.
//
//   request    Request, then the bytes of each operand that is there
//   answer     Answer, `text_bytes` of text, then, where `images` says so, of each operand 64 bytes
//              before it, its own and 64 behind it
#pragma once
#include "warptape/core/geometry.h"

namespace wt::grade {

constexpr int kMostOperands = 8, kMostNumbers = 10;
constexpr i64 kZoneBytes = 64;  // of the canary on both sides of an operand
constexpr u8 kCanary = 0xC5;

struct OperandLayout {
  Geometry geometry{};
  i64 bytes = -1;  // of its memory; -1: the operand is absent
  i64 begin = 0;   // of element 0 in that memory
  bool there() const { return bytes >= 0; }
};

// Which numbers mean what is the business of the contract's row in contracts.h.
struct Case {
  i32 contract = 0;  // its place in WT_GRADED_CONTRACTS
  i32 operands = 0;
  OperandLayout operand[kMostOperands];
  i64 integers[kMostNumbers] = {};
  double reals[kMostNumbers] = {};
};

enum class Ask : u32 { list, launch };
enum class Order : u32 { forward, reverse, random };

struct Request {
  Ask ask = Ask::list;
  i32 variant = 0;
  Order order = Order::forward;
  u32 fresh = 1;  // operands get new memory; 0: that of the launch before
  u32 count = 0;  // count accesses; the answer's text has them
  u64 seed = 1;
  Case data{};
};

enum class Status : u32 {
  done,
  refused,       // the text is why_not's
  kernel_error,  // the text is KernelError's
  memory,        // std::bad_alloc, or no room for a workspace
  threw,         // another exception: its text
  forbidden,     // a system call that the sandbox has not: the text is its number
  late,          // memory has changed after the stream had done its work
};

struct Answer {
  Status status = Status::done;
  u32 text_bytes = 0;
  u32 images = 0;
};

}  // namespace wt::grade
