// A server in a process of its own whose log, descriptors, segments and counts a test can look at; an honest client that
// goes on using it; and children that do not mean well.
#pragma once

#include <poll.h>

#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "support/child.h"
#include "support/int_table.h"
#include "support/raw_client.h"
#include "support/server_process.h"

namespace gear::test {

class WatchedServer {
 public:
  explicit WatchedServer(const std::function<void(ServerOptions*)>& change = nullptr)
      : log_path_("/tmp/gear-test-log-" + std::to_string(getpid())), server_([this, &change](ServerOptions* options) {
          if (freopen(log_path_.c_str(), "w", stderr) == nullptr) _exit(1);
          setvbuf(stderr, nullptr, _IONBF, 0);
          if (change) change(options);
        }) {}
  ~WatchedServer() { unlink(log_path_.c_str()); }

  const std::string& endpoint() const { return server_.endpoint(); }
  pid_t pid() const { return server_.pid(); }
  bool lives() const { return kill(pid(), 0) == 0 && waitpid(pid(), nullptr, WNOHANG) == 0; }
  std::string log() const {
    std::ifstream file(log_path_);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  size_t descriptors() const { return count_entries(("/proc/" + std::to_string(pid()) + "/fd").c_str()); }

 private:
  std::string log_path_;
  ServerProcess server_;
};

// What a server holds, as seen from outside.
struct Holdings {
  size_t descriptors;
  size_t segments;
  uint32_t clients, tables, writers, samplers;
  uint64_t lanes_open;
  bool operator==(const Holdings&) const = default;
  std::string text() const {
    return std::to_string(descriptors) + " descriptors, " + std::to_string(segments) + " segments, " +
           std::to_string(clients) + " clients, " + std::to_string(tables) + " tables, " + std::to_string(writers) +
           " writers, " + std::to_string(samplers) + " samplers, " + std::to_string(lanes_open) + " lanes";
  }
};

// A client that appends to table "t" and draws from it, and checks what it draws. Texts are empty when all is well.
class HonestClient {
 public:
  std::string begin(const std::string& endpoint) {
    GEAR_OR_SAY(gear_connect(endpoint.c_str(), nullptr, &client_));
    GEAR_OR_SAY(create_int_table(client_, &table_, 0666));
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.mode = GEAR_SAMPLE_LEASED;
    GEAR_OR_SAY(gear_writer_open(table_, nullptr, &writer_));
    GEAR_OR_SAY(gear_sampler_open(table_, &options, &leased_));
    options.mode = GEAR_SAMPLE_DIRECT;
    GEAR_OR_SAY(gear_sampler_open(table_, &options, &direct_));
    return round();
  }
  ~HonestClient() {
    if (client_ != nullptr) gear_close(client_);
  }

  // Appends, waits until that is admitted, and draws both ways; each drawn value was appended, and is not too old to be there.
  std::string round() {
    for (int i = 0; i < 20; ++i) GEAR_OR_SAY(append_int(writer_, appended_++));
    GEAR_OR_SAY(gear_writer_flush(writer_, kCallNs, nullptr));
    std::string text = draw(leased_);
    return text.empty() ? draw(direct_) : text;
  }

  Holdings holdings(const WatchedServer& server) {
    gear_server_info info = GEAR_SERVER_INFO_INIT;
    gear_table_stats stats = GEAR_TABLE_STATS_INIT;
    gear_get_server_info(client_, &info);
    gear_table_get_stats(table_, &stats);
    std::string begin = format("gear.%u.%016llx.", getuid(), static_cast<unsigned long long>(info.instance_id));
    return {server.descriptors(), count_entries("/dev/shm", begin), info.clients, info.tables, info.writers,
            info.samplers,        stats.lanes_open};
  }

  gear_client* client() const { return client_; }
  gear_table* table() const { return table_; }

 private:
  std::string draw(gear_sampler* sampler) {
    gear_batch* batch = nullptr;
    gear_tensor tensor{};
    GEAR_OR_SAY(gear_sample(sampler, 16, kCallNs, &batch));
    GEAR_OR_SAY(gear_batch_tensor(batch, 0, &tensor));
    for (uint32_t row = 0; row < 16; ++row) {
      int64_t value = 0;
      memcpy(&value, static_cast<char*>(tensor.data) + row * tensor.strides[0], sizeof value);
      if (value < 0 || value >= appended_ || value < appended_ - 1020) return "drew " + std::to_string(value);
    }
    GEAR_OR_SAY(gear_batch_release(batch));
    return {};
  }

  gear_client* client_ = nullptr;
  gear_table* table_ = nullptr;
  gear_writer* writer_ = nullptr;
  gear_sampler* leased_ = nullptr;
  gear_sampler* direct_ = nullptr;
  int64_t appended_ = 0;
};

// Runs body in a child process while the honest client goes on with its rounds; afterwards the server must hold again what it
// held before. Returns what went wrong.
inline std::string go_on_beside(WatchedServer& server, HonestClient& honest, const std::function<std::string()>& body) {
  std::string text = honest.round();
  Holdings before = honest.holdings(server);
  int ends[2];
  if (pipe(ends) != 0) return "pipe failed";
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    alarm(kChildSeconds);
    std::string said = body();
    [[maybe_unused]] ssize_t ignored = write(ends[1], said.data(), std::min<size_t>(said.size(), 4096));
    _exit(0);
  }
  close(ends[1]);
  uint64_t rounds = 0;
  for (;;) {
    pollfd entry{ends[0], POLLIN, 0};
    if (poll(&entry, 1, 0) > 0) break;
    std::string round = honest.round();
    ++rounds;
    if (round.empty()) continue;
    text += "the honest client, beside: " + round;
    break;
  }
  char part[512];
  ssize_t length;
  while ((length = read(ends[0], part, sizeof part)) > 0) text.append(part, static_cast<size_t>(length));
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFEXITED(status)) text += "the hostile client was killed";
  Holdings after = honest.holdings(server);
  for (int64_t deadline = deadline_after(kPatienceNs); !(after == before) && left_until(deadline) > 0;) {
    usleep(2000);
    after = honest.holdings(server);
  }
  if (!(after == before)) text += "before: " + before.text() + "; after: " + after.text();
  if (!server.lives()) text += "the server died";
  return text + honest.round();
}

}  // namespace gear::test
