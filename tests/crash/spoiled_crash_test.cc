// ctest: labels=crash timeout=300
//
// Between the death of a server and the next one something spoils what it left: a table's directory contradicts itself, a
// channel's segment is gone. The next server dies at each place where its adoption stores; the one after it keeps all that
// was whole, and says so of the rest.

#include <gtest/gtest.h>

#include <functional>

#include "crash/server_script.h"
#include "layout/directory.h"

namespace gear::test {
namespace {

constexpr int64_t kRows = 5;  // of one writer, between two deaths

std::string path_of(const SegmentName& name) { return std::string(kSegmentFolder) + "/" + name.text(); }

std::string contents_of(const SegmentName& name) {
  std::string bytes;
  FILE* file = fopen(path_of(name).c_str(), "rb");
  if (file == nullptr) return bytes;
  char part[4096];
  for (size_t got = 0; (got = fread(part, 1, sizeof part, file)) > 0;) bytes.append(part, got);
  fclose(file);
  return bytes;
}

// The segment of the kind with the lowest number: of the table, or the channel, that was made first.
SegmentName first_of(uint64_t instance, layout::SegmentKind kind) {
  for (const SegmentName& name : list_segments(instance)) {
    if (name.kind == kind) return name;
  }
  return {};
}

template <typename T>
void put(std::string* bytes, size_t offset, T value) {
  memcpy(bytes->data() + offset, &value, sizeof value);
}

std::string append_and_flush(gear_writer* writer, int64_t first) {
  for (int64_t row = first; row < first + kRows; ++row) GEAR_OR_SAY(append_int(writer, row));
  GEAR_OR_SAY(gear_writer_flush(writer, kCallNs, nullptr));
  return {};
}

class SpoiledCrash : public ::testing::Test {
 protected:
  using Script = std::function<std::string(ServerScript&, ServerRig&)>;

  void SetUp() override {
    char folder[] = "/tmp/gear-crash-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override { rmdir(folder_.c_str()); }

  // `spoil` gets the instance; `script` has the first server killed, and waits for the next.
  std::string play(ServerRig& rig, const Death& in_adoption, const std::function<void(uint64_t)>& spoil, const Script& script) {
    rig.memory().deaths[1] = in_adoption;
    rig.spoil = [&] { spoil(rig.memory().instance); };
    rig.start();
    std::string text;
    {
      ServerScript client(rig.endpoint(), &rig.memory());
      text = client.connect();
      if (text.empty()) text = script(client, rig);
    }
    uint32_t deaths = in_adoption.place[0] == 0 ? 1 : 2;
    if (text.empty() && rig.memory().died != deaths) text = std::to_string(rig.memory().died) + " servers died; ";
    return text + rig.stop();
  }

  // Without a death in the adoption, then with one at the first and at the last visit of each place that it came by.
  void play_all(const std::function<void(uint64_t)>& spoil, const Script& script) {
    ServerRig whole(folder_ + "/socket");
    ASSERT_EQ(play(whole, {}, spoil, script), "");
    const Visits& visits = whole.memory().made[1];
    ASSERT_GT(visits.count, 0u);
    for (uint32_t i = 0; i < visits.count; ++i) {
      for (uint64_t visit : std::set<uint64_t>{1, visits.at[i].visit}) {
        ServerRig rig(folder_ + "/socket");
        SCOPED_TRACE(std::string(visits.at[i].place) + " visit " + std::to_string(visit));
        ASSERT_EQ(play(rig, death_at(visits.at[i].place, visit), spoil, script), "");
      }
    }
    printf("%u places\n", visits.count);
  }

  // Until there is a server that goes on serving.
  static std::string kill_and_await(ServerRig& rig) {
    RigMemory& memory = rig.memory();
    uint32_t next = memory.deaths[1].place[0] == 0 ? 2 : 3;
    memory.killed = 1;
    for (int64_t deadline = deadline_after(kCallNs); left_until(deadline) > 0; usleep(1000)) {
      if (memory.ready >= next) return {};
    }
    return "no server came, after " + std::to_string(memory.died) + " deaths";
  }

  // Table "main" has the rows 1 .. last, each once, and goes.
  static std::string end(ServerScript& client, uint64_t last, gear_table* table, gear_writer* writer) {
    GEAR_OR_SAY(gear_writer_close(writer));
    GEAR_OR_SAY(gear_table_detach(table));
    std::set<uint64_t> rows;
    std::string text = client.open();
    if (text.empty()) text = client.read_rows(&rows);
    if (!text.empty()) return text;
    if (rows.size() != last || *rows.begin() != 1 || *rows.rbegin() != last) {
      return std::to_string(rows.size()) + " rows of " + std::to_string(last) + " are there";
    }
    text = client.reset();
    if (text.empty()) text = client.await_all_back();
    return text.empty() ? client.drop() : text;
  }

  std::string folder_;
};

TEST_F(SpoiledCrash, ATableThatContradictsItselfIsSetAsideWhereverTheServerDiesAndIsLeftAsItWas) {
  constexpr uint32_t kWrongSlots = 3;
  auto spoil = [](uint64_t instance) {
    SegmentName name = first_of(instance, layout::SegmentKind::kDirectory);
    std::string bytes = contents_of(name);
    put(&bytes, offsetof(layout::TableHeader, item_slots), kWrongSlots);
    FILE* file = fopen(path_of(name).c_str(), "r+b");
    fwrite(bytes.data(), 1, bytes.size(), file);
    fclose(file);
  };
  auto script = [](ServerScript& client, ServerRig& rig) -> std::string {
    gear_table *bad = nullptr, *good = nullptr;
    gear_writer *to_bad = nullptr, *to_good = nullptr;
    GEAR_OR_SAY(create_int_table(client.client(), &bad, 0, "bad"));
    GEAR_OR_SAY(create_int_table(client.client(), &good, 0, "main"));
    GEAR_OR_SAY(gear_writer_open(bad, nullptr, &to_bad));
    GEAR_OR_SAY(gear_writer_open(good, nullptr, &to_good));
    std::string text = append_and_flush(to_bad, 1);
    if (text.empty()) text = append_and_flush(to_good, 1);
    if (!text.empty()) return text;
    SegmentName directory = first_of(rig.memory().instance, layout::SegmentKind::kDirectory);
    SegmentName data = first_of(rig.memory().instance, layout::SegmentKind::kData);
    std::string directory_bytes = contents_of(directory), data_bytes = contents_of(data);
    text = kill_and_await(rig);
    if (!text.empty()) return text;

    put(&directory_bytes, offsetof(layout::TableHeader, item_slots), kWrongSlots);
    put(&directory_bytes, offsetof(layout::TableHeader, state), static_cast<uint32_t>(layout::TableState::kSetAside));
    if (contents_of(directory) != directory_bytes) return "the directory has changed";
    if (contents_of(data) != data_bytes) return "the data have changed";
    text = append_and_flush(to_good, 1 + kRows);
    if (!text.empty()) return text;
    int status = append_int(to_bad, 1);
    if (status == GEAR_OK) status = gear_writer_flush(to_bad, kCallNs, nullptr);
    if (status != GEAR_ECORRUPT) return told("a step for a table that is set aside", status);
    gear_table* again = nullptr;
    GEAR_MUST(GEAR_ECORRUPT, gear_table_open(client.client(), "bad", &again));
    GEAR_MUST_SAY("set aside");
    gear_writer_close(to_bad);
    GEAR_OR_SAY(gear_table_detach(bad));
    GEAR_OR_SAY(gear_table_drop(client.client(), "bad"));
    GEAR_OR_SAY(create_int_table(client.client(), &again, 0, "bad"));
    text = append_ints(again, 1, kRows);
    if (!text.empty()) return text;
    GEAR_OR_SAY(gear_table_drop(client.client(), "bad"));
    GEAR_OR_SAY(gear_table_detach(again));
    return end(client, 2 * kRows, good, to_good);
  };
  play_all(spoil, script);
}

// A process of its own that appends to table "main", flushes, and then waits for its end.
class WriterProcess {
 public:
  explicit WriterProcess(const ServerRig& rig, RigMemory* memory) {
    int ends[2];
    if (pipe(ends) != 0) abort();
    fflush(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::string text = write(rig, memory);
      if (!text.empty()) printf("the writer: %s\n", text.c_str());
      fflush(stdout);
      char done = text.empty();
      if (::write(ends[1], &done, 1) == 1) pause();
      _exit(1);
    }
    close(ends[1]);
    char done = 0;
    ready_ = read(ends[0], &done, 1) == 1 && done != 0;
    close(ends[0]);
  }
  ~WriterProcess() { end(); }
  bool ready() const { return ready_; }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  static std::string write(const ServerRig& rig, RigMemory* memory) {
    // Never closed: it dies as it is.
    auto* client = new ServerScript(rig.endpoint(), memory);
    std::string text = client->connect();
    if (text.empty()) text = client->open();
    if (!text.empty()) return text;
    gear_writer* writer = nullptr;
    GEAR_OR_SAY(gear_writer_open(client->table(), nullptr, &writer));
    return append_and_flush(writer, 1);
  }

  pid_t pid_ = -1;
  bool ready_ = false;
};

TEST_F(SpoiledCrash, AChannelThatIsLostKeepsItsBlocksUntilItsProcessEndsWhereverTheServerDies) {
  auto spoil = [](uint64_t instance) { remove_segment(first_of(instance, layout::SegmentKind::kChannel)); };
  auto script = [](ServerScript& client, ServerRig& rig) -> std::string {
    gear_table* table = nullptr;
    gear_writer* kept = nullptr;
    gear_table_stats before = GEAR_TABLE_STATS_INIT, after = GEAR_TABLE_STATS_INIT;
    GEAR_OR_SAY(create_int_table(client.client(), &table, 0, "main"));
    WriterProcess loser(rig, &rig.memory());
    if (!loser.ready()) return "the writer did not come to its end";
    GEAR_OR_SAY(gear_writer_open(table, nullptr, &kept));
    std::string text = append_and_flush(kept, 1 + kRows);
    GEAR_OR_SAY(gear_table_get_stats(table, &before));
    if (text.empty()) text = kill_and_await(rig);
    if (!text.empty()) return text;

    // That process may still be storing into what it was granted.
    GEAR_OR_SAY(gear_table_get_stats(table, &after));
    if (after.blocks_free != before.blocks_free || after.lanes_open != 2 || after.items != before.items) {
      return std::to_string(after.lanes_open) + " lanes are open, and " + std::to_string(after.blocks_free) +
             " blocks free, not " + std::to_string(before.blocks_free);
    }
    text = append_and_flush(kept, 1 + 2 * kRows);
    if (!text.empty()) return text;
    loser.end();
    return end(client, 3 * kRows, table, kept);
  };
  play_all(spoil, script);
}

}  // namespace
}  // namespace gear::test
