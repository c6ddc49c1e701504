// What somebody else's project does first: include, link, train a step, save and load.
#include <cmath>
#include <cstdio>

#include <warptape/warptape.h>

struct Net : wt::nn::Module<Net> {
  wt::nn::Linear fc1 = add("fc1", wt::nn::Linear{3, 8});
  wt::nn::Linear fc2 = add("fc2", wt::nn::Linear{8, 2});
  wt::Tensor forward(wt::Tensor x) { return fc2(relu(fc1(std::move(x)))); }
};

int main() {
  wt::manual_seed(1);
  Net net;
  wt::optim::AdamW opt{net, {.lr = 0.01}};
  const wt::Tensor x = wt::randn({4, 3}), y = wt::tensor({0, 1, 0, 1});
  double first = 0, last = 0;
  for (int i = 0; i < 20; ++i) {
    const auto loss = wt::cross_entropy(net(x), y);
    opt.zero_grad();
    loss.backward();
    opt.step();
    (i == 0 ? first : last) = loss.item();
  }
  wt::nn::save_model(net, "consumer.safetensors");
  Net again = wt::nn::load_model<Net>("consumer.safetensors");
  const bool same = max(abs(again(x) - net(x))).item() == 0;
  std::remove("consumer.safetensors");
  bool caught = false;
  try {
    (void)net(wt::ones({4, 5}));
  } catch (const wt::ShapeError&) {  // thrown across the library's border
    caught = true;
  }
  std::printf("%s: loss %.3f, then %.3f\n", wt::build_info().version, first, last);
  return wt::version() == WARPTAPE_VERSION && last < first && same && caught ? 0 : 1;
}
