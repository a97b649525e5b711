#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/clock.h"
#include "shm/message.h"
#include "support/child.h"

namespace gear {
namespace {

constexpr int64_t kMs = 1'000'000;

bool says(const Status& status, const std::string& words) {
  return status.text().find(words) != std::string::npos;
}

class Socket : public testing::Test {
 protected:
  Socket() {
    char name[] = "/tmp/gear-socket-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/geard.sock";
  }
  ~Socket() override { std::filesystem::remove_all(folder_); }

  Result<Descriptor> connect(int64_t timeout_ns = 1000 * kMs) {
    return connect_unix(path_, deadline_after(timeout_ns));
  }
  // A socket at path_, made by hand.
  Descriptor bind_by_hand(int type) {
    Descriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path, path_.c_str());
    EXPECT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return socket;
  }

  std::string folder_;
  std::string path_;
};

TEST_F(Socket, ConnectsToWhoListensAndTellsWhoItIs) {
  Result<Descriptor> listener = listen_unix(path_);
  ASSERT_TRUE(listener.ok()) << listener.status().text();
  EXPECT_EQ(accept_unix(listener.value().get()).status().code(), GEAR_ETIMEDOUT);
  Result<Descriptor> client = connect();
  ASSERT_TRUE(client.ok()) << client.status().text();
  Result<Descriptor> server = accept_unix(listener.value().get());
  ASSERT_TRUE(server.ok()) << server.status().text();
  Result<Peer> peer = peer_of(server.value().get());
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer.value().pid, getpid());
  EXPECT_EQ(peer.value().uid, geteuid());
  EXPECT_EQ(peer.value().gid, getegid());
  for (int fd : {listener.value().get(), client.value().get(), server.value().get()}) {
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
  layout::ControlHeader header{};
  ASSERT_TRUE(send_message(client.value().get(), header, "x", 1, nullptr, 0, 0).ok());
  char body;
  EXPECT_TRUE(receive_message(server.value().get(), &body, 1, deadline_after(1000 * kMs)).ok());
}

TEST_F(Socket, FileHasMode0600WhateverTheUmask) {
  mode_t old = umask(0);
  Result<Descriptor> listener = listen_unix(path_);
  umask(old);
  ASSERT_TRUE(listener.ok());
  struct stat file;
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 07777, 0600u);
}

TEST_F(Socket, ThatIsNotThereIsNoServer) {
  for (const std::string& path : {path_, folder_ + "/no/such.sock"}) {
    Status status = connect_unix(path, deadline_after(kMs)).status();
    EXPECT_EQ(status.code(), GEAR_ENOSERVER);
    EXPECT_TRUE(says(status, path) && says(status, "start geard") && says(status, "GEAR_ENDPOINT"))
        << status.text();
  }
}

TEST_F(Socket, ThatIsAFileIsNotASocket) {
  std::ofstream(path_) << "text";
  Status status = connect().status();
  EXPECT_EQ(status.code(), GEAR_ENOTSOCKET);
  EXPECT_TRUE(says(status, path_)) << status.text();
  status = listen_unix(path_).status();
  EXPECT_EQ(status.code(), GEAR_ENOTSOCKET);
  EXPECT_TRUE(says(status, path_)) << status.text();
  std::string text;
  std::ifstream(path_) >> text;
  EXPECT_EQ(text, "text");
  EXPECT_EQ(connect_unix(folder_, deadline_after(kMs)).status().code(), GEAR_ENOTSOCKET);
}

TEST_F(Socket, LeftByADeadServerIsStaleAndReplacedByTheNext) {
  { ASSERT_TRUE(listen_unix(path_).ok()); }
  ASSERT_TRUE(std::filesystem::exists(path_));
  Status status = connect().status();
  EXPECT_EQ(status.code(), GEAR_ESTALESOCKET);
  EXPECT_TRUE(says(status, path_)) << status.text();
  Result<Descriptor> listener = listen_unix(path_);
  ASSERT_TRUE(listener.ok()) << listener.status().text();
  EXPECT_TRUE(connect().ok());
}

TEST_F(Socket, OfALiveServerIsInUseAndStaysItsOwn) {
  Result<Descriptor> listener = listen_unix(path_);
  ASSERT_TRUE(listener.ok());
  Status status = listen_unix(path_).status();
  EXPECT_EQ(status.code(), GEAR_EADDRINUSE);
  EXPECT_TRUE(says(status, path_)) << status.text();
  ASSERT_TRUE(connect().ok());
  size_t waiting = 0;
  while (accept_unix(listener.value().get()).ok()) ++waiting;
  EXPECT_GE(waiting, 1u);
}

TEST_F(Socket, OfAnotherTypeIsAnotherProgram) {
  Descriptor stream = bind_by_hand(SOCK_STREAM);
  ASSERT_EQ(::listen(stream.get(), 1), 0);
  EXPECT_EQ(connect().status().code(), GEAR_EPROTOCOL);
  EXPECT_EQ(listen_unix(path_).status().code(), GEAR_EADDRINUSE);
}

TEST_F(Socket, PathThatIsTooLongIsNamedWithItsLength) {
  std::string path = folder_ + "/" + std::string(107 - folder_.size(), 'x');
  ASSERT_EQ(path.size(), 108u);
  for (const Status& status :
       {connect_unix(path, 0).status(), listen_unix(path).status(), connect_unix("", 0).status()}) {
    EXPECT_EQ(status.code(), GEAR_EINVAL);
    EXPECT_TRUE(says(status, "107")) << status.text();
  }
  path.pop_back();
  Result<Descriptor> listener = listen_unix(path);
  EXPECT_TRUE(listener.ok()) << listener.status().text();
  EXPECT_TRUE(connect_unix(path, deadline_after(kMs)).ok());
}

TEST_F(Socket, InAFolderThatIsMissingSaysSo) {
  Status status = listen_unix(folder_ + "/no/geard.sock").status();
  EXPECT_EQ(status.code(), GEAR_ESYSTEM);
  EXPECT_TRUE(says(status, "create it")) << status.text();
}

TEST_F(Socket, OfAnotherUserIsNotPermitted) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  Result<Descriptor> listener = listen_unix(path_);
  ASSERT_TRUE(listener.ok());
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  std::string end = test::in_child([this] {
    if (setresuid(65534, 65534, 65534) != 0) return std::string("setresuid failed");
    Status status = connect().status();
    if (status.code() != GEAR_EPERM || !says(status, "65534")) return status.text();
    status = listen_unix(path_).status();
    return status.code() == GEAR_EPERM ? std::string() : status.text();
  });
  EXPECT_EQ(end, "");
}

TEST_F(Socket, WhoseServerTakesNoConnectionIsWaitedForAsLongAsAsked) {
  Descriptor listener = bind_by_hand(SOCK_SEQPACKET);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  std::vector<Descriptor> filling;
  Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {
    Result<Descriptor> client = connect(0);
    status = client.status();
    if (client.ok()) filling.push_back(client.take());
  }
  EXPECT_EQ(status.code(), GEAR_ETIMEDOUT) << status.text();
  EXPECT_GE(filling.size(), 1u);
  int64_t begin = now_ns();
  EXPECT_EQ(connect(50 * kMs).status().code(), GEAR_ETIMEDOUT);
  EXPECT_GE(now_ns() - begin, 45 * kMs);
  // Room again.
  ASSERT_TRUE(accept_unix(listener.get()).ok());
  EXPECT_TRUE(connect().ok());
}

TEST_F(Socket, CannotBeMadeWithoutADescriptor) {
  Result<Descriptor> listener = listen_unix(path_);
  ASSERT_TRUE(listener.ok());
  Result<Descriptor> waiting = connect();
  std::string end = test::in_child([&] {
    test::allow_descriptors(0);
    for (const Status& status :
         {connect().status(), connect_abstract("x", 0).status(), listen_unix(path_ + "2").status(),
          accept_unix(listener.value().get()).status()}) {
      if (status.code() != GEAR_EMFILE || !says(status, "ulimit -n")) return status.text() + "?";
    }
    return std::string();
  });
  EXPECT_EQ(end, "");
}

TEST(AbstractSocket, ConnectsWhileItIsListenedAtAndHasNoFile) {
  std::string name = "gear/test-" + std::to_string(getpid());
  EXPECT_EQ(connect_abstract(name, 0).status().code(), GEAR_ENOSERVER);
  {
    Result<Descriptor> listener = listen_abstract(name);
    ASSERT_TRUE(listener.ok()) << listener.status().text();
    EXPECT_EQ(listen_abstract(name).status().code(), GEAR_EADDRINUSE);
    EXPECT_TRUE(connect_abstract(name, deadline_after(kMs)).ok());
    EXPECT_TRUE(accept_unix(listener.value().get()).ok());
  }
  Status status = connect_abstract(name, 0).status();
  EXPECT_EQ(status.code(), GEAR_ENOSERVER);
  EXPECT_TRUE(says(status, name)) << status.text();
  EXPECT_EQ(listen_abstract(std::string(108, 'x')).status().code(), GEAR_EINVAL);
}

}  // namespace
}  // namespace gear
