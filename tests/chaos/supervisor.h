// geard as a process that is killed and started again, and what it holds.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "chaos/board.h"

namespace gear::chaos {

// One thread.
class Supervisor {
 public:
  Supervisor(Board* board, std::string program);
  ~Supervisor();  // ends geard with SIGTERM and removes the folder

  std::string endpoint() const { return "unix:" + socket_; }
  // Starts geard and waits until it answers; false when it does not within 20 s.
  bool start();
  // Kills it; it is started again by the next call of keep_alive.
  void kill_now();
  // Looks whether geard is down, or ended by itself, and starts it again. False when it does not come back.
  bool keep_alive();
  // SIGTERM: a clean end. True when it exited with 0.
  bool stop();

  uint64_t kills() const { return kills_; }
  uint64_t deaths() const { return deaths_; }  // not by us
  int64_t longest_down_ns() const { return longest_down_ns_; }
  size_t descriptors() const;
  void print_descriptors() const;
  size_t segments();  // of this instance in /dev/shm

 private:
  void learn_instance();

  Board* board_;
  std::string program_;
  std::string folder_;
  std::string socket_;
  std::string segment_prefix_;
  pid_t pid_ = -1;
  Pause* down_ = nullptr;
  uint64_t kills_ = 0;
  uint64_t deaths_ = 0;
  int64_t longest_down_ns_ = 0;
};

}  // namespace gear::chaos
