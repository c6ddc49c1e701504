#include "warptape/dist/mpi.h"

#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/frame.h"

#if WARPTAPE_HAS_MPI
#include <cstdlib>

#include "warptape/dist/mpi/mpi_link.h"
#include "warptape/dist/process_world.h"

namespace wt::dist {

std::unique_ptr<Communicator> mpi_world(MpiOptions options, Frame at) {
  const FrameScope frame(at);
  check_deadline("mpi_world", options.deadline);
  start_mpi();
  const char* const told = std::getenv("OMPI_MCA_btl_tcp_if_include");
  const ProcessOptions process{"mpi", options.deadline, options.interfaces, told ? told : ""};
  return connect_processes("mpi_world", process, [](PulseClock::time_point until) {
    try {
      return std::make_unique<MpiLink>(until);
    } catch (const Stopped&) {
      abandon_mpi();
      throw;
    }
  });
}

std::string mpi_library() { return mpi_words(); }

}  // namespace wt::dist

#else

namespace wt::dist {

std::unique_ptr<Communicator> mpi_world(MpiOptions, Frame) {
  throw NotAvailable(str("[mpi_world] this build has no MPI: ", why_without("mpi")));
}

std::string mpi_library() { return {}; }

}  // namespace wt::dist
#endif
