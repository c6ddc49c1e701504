// What the program that started this process says of it. Internal.
#pragma once
#include <string>

namespace wt::dist {

// This process is one of several that mpirun or srun started; also one of one, by mpirun.
bool launched_by_mpi();
// Of this process among those on this host; -1: the launcher does not say.
int launcher_local_rank();
int launcher_local_size();
// Of all processes of the job; -1: the launcher does not say.
int launcher_size();
// Something that is the same for two processes of one host and no others: its name and boot.
std::string host_identity();
std::string host_name();
// The same for processes that reach each other by the loopback: hosts, and network namespaces.
std::string network_identity();

}  // namespace wt::dist
