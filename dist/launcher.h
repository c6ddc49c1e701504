// What the program that started this process says of it. Internal.
#pragma once
#include <string>

#include "warptape/core/types.h"

namespace wt::dist {

// Who started this process as one of several (also one of one, by mpirun): mpirun or srun, whose
// ranks meet through MPI; or torchrun, or whoever sets its variables, with an address to meet at.
// Of both the inner one: torchrun itself under srun, mpirun where such variables are set around it;
// torchrun too where this build has no MPI.
enum class Launcher : u8 { none, mpi, torchrun };
Launcher launcher();
inline bool launched() { return launcher() != Launcher::none; }
// mpirun's or srun's variables are there, whoever is the inner one.
bool launched_by_mpi();
// Of this process among those on this host; -1: the launcher does not say.
int launcher_local_rank();
int launcher_local_size();
// Of all processes of the job; -1: the launcher does not say.
int launcher_size();
// Rank, size and address (with ports and job, where `o` has none) from RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT, as torchrun sets them, each where `o` lacks it; a world of one needs
// no address. Throws UsageError that names those variables, of the ones that are read, that are
// missing or wrong.
struct TcpOptions;
TcpOptions torchrun_options(TcpOptions o);
// Something that is the same for two processes of one host and no others: its name and boot.
std::string host_identity();
std::string host_name();
// The same for processes that reach each other by the loopback: hosts, and network namespaces.
std::string network_identity();

}  // namespace wt::dist
