#include "warptape/dist/share.h"

#include <cstring>

#include "warptape/core/factories.h"
#include "warptape/core/mode.h"

namespace wt::dist {
namespace {

Tensor bytes_on_host(i64 n) { return empty({n}, {.dtype = DType::u8, .device = Device::cpu()}); }
char* bytes_of(Tensor& t) { return reinterpret_cast<char*>(t.mutable_data<u8>()); }

i64 share_number(Communicator& comm, i64 n, int root) {
  const Tensor t = tensor(n, {.dtype = DType::i64, .device = Device::cpu()});
  comm.control().broadcast(t, root);
  return t.item<i64>();
}

// Dtype, dimensions, sizes, length of the name, name, a line each: "1 2 3 5 11 head.weight" is f32
// [3, 5].
std::string heads_of(const std::vector<nn::NamedTensor>& tensors) {
  std::string text;
  for (const nn::NamedTensor& t : tensors) {
    text += str(int(t.tensor.dtype()), " ", t.tensor.ndim());
    for (int i = 0; i < t.tensor.ndim(); ++i) text += str(" ", t.tensor.size(i));
    text += str(" ", t.name.size(), " ", t.name, "\n");
  }
  return text;
}

class HeadReader {
 public:
  explicit HeadReader(const std::string& text) : at_(text.data()), end_(at_ + text.size()) {}
  bool more() const { return at_ < end_; }
  nn::NamedTensor next() {
    const auto dtype = DType(number());
    Shape shape;
    for (i64 n = number(); n > 0; --n) shape.push_back(number());
    const i64 length = number();
    nn::NamedTensor t{std::string(at_, size_t(length)),
                      empty(shape, {.dtype = dtype, .device = Device::cpu()})};
    at_ += length + 1;
    return t;
  }

 private:
  i64 number() {
    i64 n = 0;
    for (; *at_ != ' '; ++at_) n = 10 * n + (*at_ - '0');
    ++at_;
    return n;
  }
  const char *at_, *end_;
};

}  // namespace

std::string share_text(Communicator& comm, const std::string& text, int root) {
  if (comm.size() == 1) return text;
  Tensor bytes = bytes_on_host(share_number(comm, i64(text.size()), root));
  const auto size = size_t(bytes.numel());
  if (comm.rank() == root && size > 0) std::memcpy(bytes_of(bytes), text.data(), size);
  comm.control().broadcast(bytes, root);
  return size > 0 ? std::string(bytes_of(bytes), size) : std::string();
}

std::vector<nn::NamedTensor> share_tensors(Communicator& comm,
                                           const std::vector<nn::NamedTensor>& tensors, int root) {
  const NoGrad no_grad;
  const bool mine = comm.rank() == root;
  std::vector<nn::NamedTensor> all;
  if (mine)
    for (const nn::NamedTensor& t : tensors)
      all.push_back({t.name, t.tensor.to(Device::cpu()).contiguous()});
  if (comm.size() == 1) return all;
  const std::string heads = share_text(comm, heads_of(all), root);
  if (!mine)
    for (HeadReader reader(heads); reader.more();) all.push_back(reader.next());
  for (const nn::NamedTensor& t : all) comm.control().broadcast(t.tensor, root);
  return all;
}

}  // namespace wt::dist
