// What a table costs: its memory, and attaching to it.

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "bench/bench_table.h"
#include "bench/harness.h"

namespace gear::bench {

void bench_resident(Report* report) {
  constexpr uint64_t kItems = 1'000'000;
  constexpr uint64_t kBytes = 256;
  BenchTable bench(kBytes, kItems, [](gear_table_options* options) { options->lanes_max = 8; });
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  must(gear_table_describe(bench.table, &info), "describe");
  Row row{"resident bytes, 1M steps of 256 B, item a step", "MB", "payload bytes", Better::kLower, 1.35};
  row.ours = static_cast<double>(info.directory_bytes + info.data_bytes) / 1e6;
  row.baseline = static_cast<double>(kItems * kBytes) / 1e6;
  row.ratio = row.ours / row.baseline;
  report->add(row);
}

namespace {

// A bare server: accepts, reads one byte, answers with two descriptors.
class BareServer {
 public:
  BareServer(int first, int second) {
    address_.sun_family = AF_UNIX;
    length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                     snprintf(address_.sun_path + 1, sizeof address_.sun_path - 1,
                                              "gear-bench/%d", getpid()));
    listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address_), length_) != 0 ||
        listen(listener_, 16) != 0) {
      must(GEAR_ESYSTEM, "bare server");
    }
    thread_ = std::thread([this, first, second] {
      for (;;) {
        int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) return;
        char byte;
        if (read(client, &byte, 1) == 1) answer(client, first, second);
        close(client);
      }
    });
  }
  ~BareServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

  // Connects, asks, and receives the two descriptors.
  void ask(int* descriptors) {
    int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(client, reinterpret_cast<sockaddr*>(&address_), length_) != 0 ||
        write(client, "a", 1) != 1) {
      must(GEAR_ESYSTEM, "bare client");
    }
    char byte;
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (recvmsg(client, &message, MSG_CMSG_CLOEXEC) != 1) must(GEAR_ESYSTEM, "bare client");
    memcpy(descriptors, CMSG_DATA(CMSG_FIRSTHDR(&message)), 2 * sizeof(int));
    close(client);
  }

 private:
  static void answer(int client, int first, int second) {
    int descriptors[2] = {first, second};
    char byte = 'b';
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptors);
    memcpy(CMSG_DATA(rights), descriptors, sizeof descriptors);
    if (sendmsg(client, &message, MSG_NOSIGNAL) < 0) must(GEAR_ESYSTEM, "bare server");
  }

  sockaddr_un address_{};
  socklen_t length_ = 0;
  int listener_ = -1;
  std::thread thread_;
};

int sized_memfd(uint64_t bytes) {
  int fd = memfd_create("bench", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) must(GEAR_ESYSTEM, "memfd");
  return fd;
}

}  // namespace

void bench_attach(Report* report) {
  BenchTable bench(256, 100'000, [](gear_table_options*) {});
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  must(gear_table_describe(bench.table, &info), "describe");
  char handle[GEAR_HANDLE_BYTES + 1];
  must(gear_table_handle(bench.table, handle), "handle");
  std::string endpoint = std::string("handle:") + handle;
  int directory = sized_memfd(info.directory_bytes);
  int data = sized_memfd(info.data_bytes);
  BareServer server(directory, data);
  int rounds = quick() ? 100 : 500;

  auto ours = [&] {
    int64_t begin = now_ns();
    for (int i = 0; i < rounds; ++i) {
      gear_client* client = nullptr;
      gear_table* table = nullptr;
      must(gear_connect(endpoint.c_str(), nullptr, &client), "connect");
      must(gear_table_attach(client, handle, &table), "attach");
      must(gear_close(client), "close");
    }
    return static_cast<double>(now_ns() - begin) / rounds / 1e3;
  };
  auto baseline = [&] {
    int64_t begin = now_ns();
    for (int i = 0; i < rounds; ++i) {
      int descriptors[2];
      server.ask(descriptors);
      void* a = mmap(nullptr, info.directory_bytes, PROT_READ, MAP_SHARED, descriptors[0], 0);
      void* b = mmap(nullptr, info.data_bytes, PROT_READ, MAP_SHARED, descriptors[1], 0);
      munmap(a, info.directory_bytes);
      munmap(b, info.data_bytes);
      close(descriptors[0]);
      close(descriptors[1]);
    }
    return static_cast<double>(now_ns() - begin) / rounds / 1e3;
  };
  Row row{"connect, attach by handle, map, close", "us", "bare socket and the same mmaps", Better::kLower, 2.0};
  measure(&row, ours, baseline);
  report->add(row);
  close(directory);
  close(data);
}

}  // namespace gear::bench
