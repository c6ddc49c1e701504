// Checkpoints that all ranks write, each its part, side by side. Files of PATH:
//
//   PATH                         the index: a safetensors file without tensors, whose metadata
//                                names the parts, the shape of every tensor, and the caller's own
//   PATH.part-3.0-of-4, ...      a part a rank (of the third save): safetensors, with checksums
//
// A tensor lies in its parts as flat ranges of its elements, named "<tensor>@<first element>". The
// index is written last and replaces the old one in one piece; the parts of the old one go then.
// Whatever fails and whenever a rank dies, PATH is the old checkpoint or the new one, whole.
//
//   dist::save_sharded("run/ckpt", comm, opt, nn::add_prefix(net.state_dict(), "model."));
//   ...
//   const nn::LoadedTensors c = dist::load_sharded("run/ckpt");  // any number of ranks, or none
//   net.load_state_dict(nn::with_prefix(c.tensors, "model."));
//   opt.load_state(nn::add_prefix(nn::with_prefix(c.tensors, "optim."), "optim."));
#pragma once
#include <string>
#include <vector>

#include "warptape/dist/communicator.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/optim/optimizer.h"

namespace wt::dist {

// Writes a checkpoint of the optimizer's state and `common`, each rank its part. Every rank calls
// it, with the same arguments; the folder is one that all of them see. Nothing is gathered: of
// sharded state (DataParallelOptions::zero) each rank writes what it keeps, and what all ranks have
// alike (`common`, averages, state that is not sharded) is dealt out by bytes. Names must differ,
// from the optimizer's too. Returns once the checkpoint is on the disk. Throws CheckpointError on
// every rank, naming the one that could not write; PeerFailure; what Optimizer::state_pieces()
// throws. Then PATH is what it was.
WT_API void save_sharded(const std::string& path, Communicator& comm, const optim::Optimizer& opt,
                         const std::vector<nn::NamedTensor>& common,
                         const nn::Metadata& metadata = {});

// Reads a sharded checkpoint: all tensors, whole, on the cpu, and the caller's metadata. Any
// process that sees the folder may call it, alone. Throws DataError for what is no index, and for
// parts that are missing, damaged or of another save.
WT_API nn::LoadedTensors load_sharded(const std::string& path, const ParseLimits& limits = {});

}  // namespace wt::dist
