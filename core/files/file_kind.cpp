#include "warptape/core/files/file_kind.h"

#include <algorithm>

namespace wt {
namespace {

constexpr u64 kZipTail = u64{1} << 16;  // of the directory, which has the members' names

std::string bytes_of(const InputFile& file, u64 offset, u64 most) {
  std::string bytes(offset < file.size() ? std::min(most, file.size() - offset) : 0, '\0');
  file.read(offset, bytes.data(), bytes.size(), "the file's kind");
  return bytes;
}

std::string pytorch(const InputFile& file, const std::string& how,
                    std::string_view wanted = "safetensors") {
  return str("a PyTorch file", how, ", not ", wanted, "; pickles are never read, for they can run ",
             "code\n  Try tools/convert_pt.py ", printable(file.path(), 400));
}

// torch.save since 1.6 writes NAME/data.pkl and one member a tensor; numpy.savez only x.npy.
std::string zip(const InputFile& file, const std::string& head) {
  const u64 size = file.size();
  const std::string tail = bytes_of(file, size > kZipTail ? size - kZipTail : 0, kZipTail);
  for (const std::string& part : {head, tail})
    if (part.find("data.pkl") != part.npos) return pytorch_archive(file, "safetensors");
  if (tail.find(".npy") != tail.npos)
    return "an npz archive, not safetensors\n  Try data::NpzFile, or save the arrays as "
           "safetensors";
  return "a zip archive, not safetensors";
}

bool is_pickle(const std::string& head) {
  return head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

bool named_as_pytorch(const std::string& path) {
  for (const char* ending : {".pt", ".pth", ".ckpt"})
    if (path.ends_with(ending)) return true;
  return false;
}

}  // namespace

bool is_pytorch_member(std::string_view name) {
  return name == "data.pkl" || name.ends_with("/data.pkl");
}

std::string pytorch_archive(const InputFile& file, std::string_view wanted) {
  return pytorch(file, " (a zip archive with a pickle)", wanted);
}

std::string kind_of_file(const InputFile& file) {
  using namespace std::string_view_literals;
  const std::string head = bytes_of(file, 0, 4096);
  if (head.starts_with("PK\3\4")) return zip(file, head);
  // The number that torch.save wrote before 1.6, in the pickle before that of the tensors.
  if (head.starts_with("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv))
    return pytorch(file, " (of before 1.6: pickles)");
  if (is_pickle(head)) return pytorch(file, " or another pickle");
  if (head.starts_with("GGUF")) return "a GGUF file, not safetensors";
  if (head.starts_with("\x89HDF")) return "an HDF5 file, not safetensors";
  if (head.starts_with("\x93NUMPY")) return "an npy file, not safetensors\n  Try data::read_npy";
  if (head.starts_with("version https://git-lfs"))
    return "a pointer of Git LFS, not the file itself\n  Try git lfs pull";
  if (named_as_pytorch(file.path())) return pytorch(file, " by its name");
  return "";
}

}  // namespace wt
