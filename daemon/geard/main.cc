// geard: starts a server, tells the service manager, and serves until a signal.
#include <pthread.h>
#include <csignal>
#include <iostream>
#include <mutex>
#include <thread>

#include "common/quantity.h"
#include "geard/log.h"
#include "geard/notify.h"
#include "geard/options.h"
#include "geard/socket_path.h"
#include "geard/startup.h"
#include "shm/cut_short.h"

namespace gear::daemon {
namespace {

constexpr int kStopSignals[] = {SIGTERM, SIGINT, SIGHUP};

// The handler reads both in the main thread only: every other thread blocks the signals.
Server* volatile server_to_stop = nullptr;
volatile sig_atomic_t stop_asked = 0;

void on_stop_signal(int) {
  stop_asked = 1;
  if (server_to_stop != nullptr) server_to_stop->stop();
}

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = on_stop_signal;
  for (int signal : kStopSignals) sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  survive_cuts();
}

// Threads started while one of these lives leave the stop signals to the main thread.
class StopSignalsBlocked {
 public:
  StopSignalsBlocked() {
    sigset_t signals;
    sigemptyset(&signals);
    for (int signal : kStopSignals) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~StopSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// A server that another thread may stop as long as it is there. Any thread.
class Stoppable {
 public:
  explicit Stoppable(Server* server) : server_(server) {}
  void stop() {
    std::lock_guard lock(mutex_);
    if (server_ != nullptr) server_->stop();
  }
  void forget() {
    std::lock_guard lock(mutex_);
    server_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Server* server_;
};

int check_config(const Invocation& invocation) {
  uint64_t bytes = 0;
  for (const DeclaredTable& table : invocation.config.tables) bytes += table.bytes;
  std::cout << invocation.config_path << ": ok, " << invocation.config.tables.size() << " tables, "
            << format_bytes(bytes) << " of shared memory\n";
  return kExitOk;
}

// Serves until a signal, or until the tables could not be made.
int serve(std::unique_ptr<Server> server, const Config& config, const std::string& socket_path) {
  const ServiceNotifier notifier;
  Stoppable running(server.get());
  Status started;
  std::thread startup;
  {
    const StopSignalsBlocked blocked;
    startup = std::thread([&] {
      started = make_tables(socket_path, config.tables, notifier);
      if (!started.ok()) return running.stop();
      log_info("serving unix:" + socket_path);
      notifier.send("READY=1\nSTATUS=serving unix:" + socket_path);
    });
  }
  server_to_stop = server.get();
  if (stop_asked != 0) server->stop();
  const int64_t tick_ns = notifier.watchdog_interval_ns();
  if (tick_ns > 0)
    server->run([&] { notifier.send("WATCHDOG=1"); }, tick_ns);
  else
    server->run();
  notifier.send("STOPPING=1\nSTATUS=stopping");
  server_to_stop = nullptr;
  running.forget();
  // First the server, so that a startup that still waits for it ends now.
  server.reset();
  startup.join();
  if (stop_asked == 0) {
    log_error(started.ok() ? "the server ended without being asked" : started.text());
    return kExitFailure;
  }
  log_info("stopped");
  return kExitOk;
}

int run(const Invocation& invocation) {
  start_log(invocation.config.log);
  catch_stop_signals();
  // Who is let in must be able to get to the socket.
  const mode_t directory_mode = invocation.config.server.access == ConnectAccess::kAny ? 0755 : 0700;
  Result<std::string> socket_path = prepare_socket_path(invocation.config.server.socket_path, directory_mode);
  if (!socket_path.ok()) {
    log_error(socket_path.status().text());
    return kExitFailure;
  }
  ServerOptions options = invocation.config.server;
  options.socket_path = socket_path.value();
  Result<std::unique_ptr<Server>> server = [&] {
    const StopSignalsBlocked blocked;
    return Server::create(options);
  }();
  if (!server.ok()) {
    log_error(server.status().text());
    return server.status().code() == GEAR_EADDRINUSE ? kExitAlreadyRunning : kExitFailure;
  }
  return serve(server.take(), invocation.config, socket_path.value());
}

}  // namespace
}  // namespace gear::daemon

int main(int argc, char** argv) {
  using namespace gear::daemon;
  int exit_status = kExitOk;
  const std::optional<Invocation> invocation = read_command_line(argc, argv, &exit_status);
  if (!invocation) return exit_status;
  return invocation->check_config ? check_config(*invocation) : run(*invocation);
}
