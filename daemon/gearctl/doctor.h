// gearctl doctor: whether this machine has what GEAR needs, and what to do where it has not.
#pragma once

#include <string>
#include <vector>

#include "gearctl/output.h"

namespace gear::daemon {

enum class Verdict {
  kOk,
  kWarn,  // works, but slower or with less than it could
  kFail   // something will not work until it is mended
};

struct Finding {
  std::string check;  // a stable name, as "shm"
  Verdict verdict;
  std::string found;
  std::string remedy;  // "" where there is nothing to do
};

// doctor_machine.cc: memory and limits.
Finding check_shm();
Finding check_memory_cgroup();
Finding check_memlock();
Finding check_nofile();
Finding check_huge_pages();
Finding check_transparent_huge_pages();

// doctor_kernel.cc: system calls and devices.
Finding check_io_uring();
Finding check_memfd();
Finding check_pidfd();
Finding check_cuda();
Finding check_rdma();

// doctor.cc
Finding check_server(const std::string& endpoint);

// {"findings": [{check, status, found, remedy}], "ok", "warn", "fail"}
Json examine(const std::string& endpoint);
std::string render_doctor(const Json& document);

}  // namespace gear::daemon
