// What must hold for any bytes that a reader is given. The fuzz cases of the tests damage good
// files and pass them here; the libFuzzer programs (target.cpp, tools/fuzz.sh --guided) look for
// bytes that reach new code. With WT_FUZZ_SEEDS=FOLDER the first thousand files that are taken are
// kept there.
#pragma once
#include <string_view>

namespace wt_test {

// True if the reader takes the file. A refusal is a DataError that names the file and the byte, and
// what is taken is not more than the file can hold: std::logic_error otherwise.
bool takes_bpe(std::string_view file);
bool takes_cifar(std::string_view file);
bool takes_cifar100(std::string_view file);
bool takes_csv(std::string_view file);
bool takes_gguf(std::string_view file);
bool takes_idx(std::string_view file);
bool takes_image(std::string_view file);
// A compiled kernel, for whatever key.
bool takes_kernel(std::string_view file);
bool takes_lines(std::string_view file);
bool takes_lmdb(std::string_view file);
bool takes_npy(std::string_view file);
bool takes_npz(std::string_view file);
bool takes_obj(std::string_view file);
bool takes_off(std::string_view file);
// The whole of it but for running: names, operators, constants.
bool takes_onnx(std::string_view file);
bool takes_ply(std::string_view file);
bool takes_recording(std::string_view file);
bool takes_safetensors(std::string_view file);
bool takes_shard(std::string_view file);
// A record's bytes behind a good check sum.
bool takes_shard_record(std::string_view record);
bool takes_tfrecord(std::string_view file);
bool takes_tf_example(std::string_view record);
bool takes_tokens(std::string_view file);
bool takes_weight_index(std::string_view file);
bool takes_xyz(std::string_view file);

}  // namespace wt_test
