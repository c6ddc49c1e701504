// What one rank has, for all of them: text, and tensors with names.
#pragma once
#include <string>
#include <vector>

#include "warptape/dist/communicator.h"
#include "warptape/nn/module.h"

namespace wt::dist {

// The text of rank `root`, on every rank; what others give is not looked at. Every rank calls it.
WT_API std::string share_text(Communicator& comm, const std::string& text, int root = 0);
// The tensors of rank `root` with their names, on every rank, on the cpu; what others give is not
// looked at. Those on other devices are copied; the host waits for them. Every rank calls it.
WT_API std::vector<nn::NamedTensor> share_tensors(Communicator& comm,
                                                  const std::vector<nn::NamedTensor>& tensors,
                                                  int root = 0);

}  // namespace wt::dist
