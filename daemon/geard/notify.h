// What geard tells a service manager: the protocol of sd_notify(3), spoken by hand.
#pragma once

#include <cstdint>
#include <string>

namespace gear::daemon {

// Thread rule: any thread; each notification is one datagram.
class ServiceNotifier {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Without them every call does nothing.
  ServiceNotifier();
  ~ServiceNotifier();
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;

  // "READY=1\nSTATUS=serving". Never blocks; what cannot be delivered is lost.
  void send(const std::string& state) const;

  // How often the manager wants to hear WATCHDOG=1, halved; 0: never.
  int64_t watchdog_interval_ns() const { return watchdog_interval_ns_; }

 private:
  int socket_ = -1;
  int64_t watchdog_interval_ns_ = 0;
};

}  // namespace gear::daemon
