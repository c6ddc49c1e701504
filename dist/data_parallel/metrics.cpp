#include "warptape/dist/metrics.h"

#include "warptape/core/factories.h"

namespace wt::dist {

Share share_of(const Communicator& comm, i64 n) {
  const i64 begin = n * comm.rank() / comm.size(), end = n * (comm.rank() + 1) / comm.size();
  return {begin, end - begin};
}

void sum_metrics(Communicator& comm, const std::vector<metrics::Metric*>& list) {
  if (comm.size() == 1) return;
  std::vector<double> all;
  std::vector<size_t> sizes;
  for (const metrics::Metric* m : list) {
    const std::vector<double> sums = m->sums();
    sizes.push_back(sums.size());
    all.insert(all.end(), sums.begin(), sums.end());
  }
  const Tensor t = tensor(all, {.dtype = DType::f64, .device = Device::cpu()});
  comm.control().all_reduce(t);
  all = t.to_vector<double>();
  auto at = all.begin();
  for (size_t i = 0; i < list.size(); ++i) {
    list[i]->set_sums({at, at + std::ptrdiff_t(sizes[i])});
    at += std::ptrdiff_t(sizes[i]);
  }
}

}  // namespace wt::dist
