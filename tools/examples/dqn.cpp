// Deep Q-learning (Mnih et al., 2015) of balancing a pole on a cart: a replay buffer of tensors
// whose rows are written, a target network that follows slowly (Lillicrap et al., 2016,
// arXiv:1509.02971).
//
//   example_dqn [--steps N] [--device cpu|simt|cuda]
#include <numbers>

#include "same_start.h"

using namespace wt;

// The problem of Barto, Sutton and Anderson (1983), with Gym's numbers.
struct CartPole {
  double x = 0, v = 0, angle = 0, w = 0;
  int episode = 0;

  CartPole() { reset(); }
  void reset() {
    const std::vector<double> s = (0.05 * numbers({4}, 500 + ++episode)).to_vector<double>();
    x = s[0], v = s[1], angle = s[2], w = s[3];
  }
  Tensor observation() const { return tensor({x, v, angle, w}, {.dtype = f64}); }
  // Pushes to the right (1) or left (0); is it over?
  bool step(i64 action) {
    const double force = action == 1 ? 10 : -10, sine = std::sin(angle), cosine = std::cos(angle);
    const double push = (force + 0.05 * w * w * sine) / 1.1;
    const double turn =
        (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1));
    const double a = push - 0.05 * turn * cosine / 1.1;
    x += 0.02 * v, v += 0.02 * a, angle += 0.02 * w, w += 0.02 * turn;
    return std::abs(x) > 2.4 || std::abs(angle) > std::numbers::pi / 15;
  }
};

struct Replay {
  i64 capacity, written = 0;
  Tensor states = zeros({capacity, 4}, {.dtype = f64});
  Tensor next_states = zeros({capacity, 4}, {.dtype = f64});
  Tensor actions = zeros({capacity}, {.dtype = int64});
  Tensor rewards = zeros({capacity}, {.dtype = f64});
  Tensor dones = zeros({capacity}, {.dtype = f64});

  void push(const Tensor& state, i64 action, double reward, const Tensor& next, bool done) {
    const i64 row = written++ % capacity;
    states[row].copy_(state);
    next_states[row].copy_(next);
    actions[row].fill_(action);
    rewards[row].fill_(reward);
    dones[row].fill_(done);
  }
  i64 size() const { return std::min(written, capacity); }
};

// The best action, or half of the time any.
static i64 choose(nn::Sequential& net, const Tensor& state, int played) {
  const std::vector<double> chance = numbers({2}, 1000 + played).to_vector<double>();
  if (chance[0] > 0.5) return chance[1] > 0 ? 1 : 0;
  const NoGrad no_grad;
  return net(state).argmax().item<i64>();
}

int main(int argc, char** argv) {
  Losses losses(torch_losses::dqn, argc, argv);
  nn::Sequential net{nn::Linear{4, 32}, nn::ReLU{}, nn::Linear{32, 32}, nn::ReLU{},
                     nn::Linear{32, 2}};
  same_start(net);
  nn::Sequential target = net.clone();
  optim::Adam opt{net, {.lr = 3e-3}};
  Replay replay{.capacity = 256};
  CartPole pole;

  for (int step = 0; step < losses.steps(); ++step) {
    for (int i = 0; i < 16; ++i) {
      const Tensor state = pole.observation();
      const i64 action = choose(net, state, int(replay.written));
      const bool done = pole.step(action);
      replay.push(state, action, 1, pole.observation(), done);
      if (done) pole.reset();
    }
    const Tensor rows = ((0.5 + 0.5 * numbers({64}, 100 + step)) * replay.size()).to(int64);
    const Tensor taken = replay.actions[{rows}].unsqueeze(1);
    const Tensor q = gather(net(replay.states[{rows}]), 1, taken).squeeze(1);
    Tensor wanted;
    {
      const NoGrad no_grad;
      const Tensor best = max(target(replay.next_states[{rows}]), 1);
      wanted = replay.rewards[{rows}] + 0.95 * (1 - replay.dones[{rows}]) * best;
    }
    const auto loss = smooth_l1_loss(q, wanted);
    opt.zero_grad();
    loss.backward();
    opt.step();
    losses.add(loss.item());

    const NoGrad no_grad;
    std::vector<Tensor> follower = target.parameters(), leader = net.parameters();
    for (size_t k = 0; k < leader.size(); ++k) follower[k].lerp_(leader[k], 0.1);
  }
  return losses.compare();
}
