#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "gearctl/doctor.h"

namespace gear::daemon {
namespace {

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Entries of a directory that begin with `prefix`; none where it cannot be read.
std::vector<std::string> entries(const std::string& path, const std::string& prefix = "") {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name[0] != '.' && name.rfind(prefix, 0) == 0) names.push_back(name);
  }
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// How many devices the driver reports; negative is its error.
int cuda_device_count(void* library) {
  using Init = int (*)(unsigned);
  using Count = int (*)(int*);
  const auto init = reinterpret_cast<Init>(dlsym(library, "cuInit"));
  const auto device_count = reinterpret_cast<Count>(dlsym(library, "cuDeviceGetCount"));
  if (init == nullptr || device_count == nullptr) return -1;
  int count = 0;
  int failure = init(0);
  if (failure == 0) failure = device_count(&count);
  return failure == 0 ? count : -failure;
}

}  // namespace

Finding check_io_uring() {
  struct io_uring_params parameters = {};
  const long fd = syscall(SYS_io_uring_setup, 2, &parameters);
  if (fd >= 0) {
    close(static_cast<int>(fd));
    return {"io_uring", Verdict::kOk, "available", ""};
  }
  const int reason = errno;
  const std::string found =
      std::string("not available (") + strerror(reason) + "); geard uses epoll";
  const std::string disabled = first_line("/proc/sys/kernel/io_uring_disabled");
  if (reason == ENOSYS)
    return {"io_uring", Verdict::kWarn, found, "run a kernel with io_uring (5.6 or newer)"};
  if (reason == ENOMEM) return {"io_uring", Verdict::kWarn, found, "raise RLIMIT_MEMLOCK"};
  if (!disabled.empty() && disabled != "0") {
    return {"io_uring", Verdict::kWarn, found,
            "kernel.io_uring_disabled is " + disabled + ": sysctl kernel.io_uring_disabled=0"};
  }
  return {"io_uring", Verdict::kWarn, found,
          "a seccomp profile forbids it; in a container allow io_uring_setup, io_uring_enter and "
          "io_uring_register"};
}

Finding check_memfd() {
  const int fd = memfd_create("gearctl doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    return {"memfd", Verdict::kWarn, std::string("memfd_create: ") + strerror(errno),
            "use geard --memory posix; embedded servers need memfd"};
  }
  const bool sealed = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
  close(fd);
  if (sealed) return {"memfd", Verdict::kOk, "available, with seals", ""};
  return {"memfd", Verdict::kWarn, "available, without seals", "run a kernel of 3.17 or newer"};
}

Finding check_pidfd() {
  const long fd = syscall(SYS_pidfd_open, getpid(), 0);
  if (fd < 0) {
    return {
        "pidfd", Verdict::kWarn, std::string("pidfd_open: ") + strerror(errno),
        "run a kernel of 5.3 or newer; until then a client's death is seen by its socket alone"};
  }
  close(static_cast<int>(fd));
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return {"pidfd", Verdict::kWarn, std::string("socketpair: ") + strerror(errno), ""};
  }
  int peer = -1;
  socklen_t length = sizeof peer;
  const bool has_peer = getsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &peer, &length) == 0;
  if (has_peer) close(peer);
  close(pair[0]);
  close(pair[1]);
  if (has_peer) return {"pidfd", Verdict::kOk, "pidfd_open and SO_PEERPIDFD", ""};
  return {"pidfd", Verdict::kWarn, "pidfd_open, but no SO_PEERPIDFD",
          "clients of another PID namespace are told apart from kernel 6.5 on"};
}

Finding check_cuda() {
  const std::vector<std::string> nodes = entries("/dev", "nvidia");
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr && nodes.empty()) return {"cuda", Verdict::kOk, "none (optional)", ""};
  if (library == nullptr) {
    return {"cuda", Verdict::kWarn, "/dev/" + nodes.front() + " is there, libcuda.so.1 is not",
            "install the driver's library (libcuda1); in a container use --gpus all"};
  }
  // Left open: drivers do not expect to be unloaded.
  const int count = cuda_device_count(library);
  if (count > 0) return {"cuda", Verdict::kOk, std::to_string(count) + " devices", ""};
  return {"cuda", Verdict::kWarn,
          count == 0 ? "libcuda.so.1, but no device"
                     : "libcuda.so.1 answers error " + std::to_string(-count),
          nodes.empty() ? "no /dev/nvidia*: load the driver; in a container use --gpus all"
                        : "see nvidia-smi"};
}

Finding check_rdma() {
  const std::string root = "/sys/class/infiniband/";
  const std::vector<std::string> devices = entries(root);
  if (devices.empty()) return {"rdma", Verdict::kOk, "none (optional)", ""};
  std::vector<std::string> ports;
  bool active = false;
  for (const std::string& device : devices) {
    for (const std::string& port : entries(root + device + "/ports")) {
      const std::string state = first_line(root + device + "/ports/" + port + "/state");
      ports.push_back(device + " port " + port + " " + state);
      active = active || state.find("ACTIVE") != std::string::npos;
    }
  }
  if (!active) {
    return {"rdma", Verdict::kWarn, joined(ports), "no port is ACTIVE: bring the link up"};
  }
  if (entries("/dev/infiniband", "uverbs").empty()) {
    return {"rdma", Verdict::kWarn, joined(ports),
            "no /dev/infiniband/uverbs*: modprobe ib_uverbs"};
  }
  return {"rdma", Verdict::kOk, joined(ports), ""};
}

}  // namespace gear::daemon
