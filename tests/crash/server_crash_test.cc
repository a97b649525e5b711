// ctest: labels=crash timeout=300
//
// geard's server dies at each place where it stores to shared memory, at several of its visits there; the next one adopts what
// it left, and may die at that; the client goes on as if nothing had been. Then the client dies at each of its own places:
// all that it held comes back, and what it had flushed is there.

#include <gtest/gtest.h>

#include <functional>

#include "crash/server_script.h"
#include "support/shared_memory.h"

namespace gear::test {
namespace {

constexpr size_t kWorkers = 6;  // most of their time they wait

struct Job {
  Death first;   // of the server, or of the client
  Death second;  // of the next server, in its adoption
};

// The first job after whose death an adoption came by a place.
struct Found {
  uint32_t count = 0;
  Job jobs[Visits::kMost];
  void add(const Job& job, const Visits& made) {
    for (uint32_t i = 0; i < made.count && count < Visits::kMost; ++i) {
      auto same = [&](const Job& one) { return strcmp(one.second.place, made.at[i].place) == 0; };
      if (std::none_of(jobs, jobs + count, same)) jobs[count++] = {job.first, made.at[i]};
    }
  }
};

struct Tally {
  Found found[kWorkers];
  std::atomic<uint32_t> deaths{0};
  std::atomic<uint32_t> missed{0};  // what a death was to follow did not come about
};

// The visits of a place at which to die: the first two, one in the middle, the last.
std::vector<uint64_t> phases(uint64_t visits) {
  std::set<uint64_t> chosen = {1, std::min<uint64_t>(2, visits), (visits + 1) / 2, visits};
  return {chosen.begin(), chosen.end()};
}

class ServerCrash : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/gear-crash-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override { rmdir(folder_.c_str()); }
  std::string path(size_t worker) const { return folder_ + "/" + std::to_string(worker); }

  // The whole script with a server that dies as the job says. "" when all was as without a death.
  std::string play(ServerRig& rig, const Job& job) {
    rig.memory().deaths[0] = job.first;
    rig.memory().deaths[1] = job.second;
    rig.start();
    std::string text;
    {
      ServerScript script(rig.endpoint(), &rig.memory());
      text = script.run();
      if (text.empty() && seen_.empty()) {
        seen_ = script.seen;
        rows_ = script.rows;
      }
      for (const auto& [what, number] : seen_) {
        if (!text.empty() || script.seen.at(what) == number) continue;
        text = what + " is " + std::to_string(script.seen.at(what)) + ", not " + std::to_string(number);
      }
      if (text.empty() && script.rows != rows_) text = "other rows are in the table";
    }
    text += rig.stop();
    return text;
  }

  using Play = std::function<std::string(ServerRig&, const Job&)>;

  // All of them, by several processes side by side. Nearly all must come by their deaths.
  void work_off(const std::vector<Job>& jobs, const Play& play_one) {
    ASSERT_FALSE(jobs.empty());
    tally_->deaths = tally_->missed = 0;
    fflush(nullptr);
    std::vector<pid_t> workers;
    for (size_t worker = 0; worker < kWorkers; ++worker) {
      pid_t pid = fork();
      if (pid == 0) _exit(work_off_share(worker, jobs, play_one));
      workers.push_back(pid);
    }
    for (pid_t pid : workers) {
      int status = 0;
      waitpid(pid, &status, 0);
      EXPECT_EQ(status, 0);
    }
    printf("%zu jobs, %u deaths, %u jobs that did not come by theirs\n", jobs.size(), tally_->deaths.load(),
           tally_->missed.load());
    EXPECT_LE(tally_->missed, jobs.size() / 4);
  }

  int work_off_share(size_t worker, const std::vector<Job>& jobs, const Play& play_one) {
    int failed = 0;
    for (size_t i = worker; i < jobs.size() && failed < 3; i += kWorkers) {
      const Job& job = jobs[i];
      alarm(60);
      ServerRig rig(path(worker));
      std::string text = play_one(rig, job);
      tally_->deaths += rig.memory().died;
      uint32_t wanted = job.second.place[0] != 0 ? 2 : 1;
      if (rig.memory().died < wanted) ++tally_->missed;
      if (rig.memory().died == 1 && job.second.place[0] == 0) tally_->found[worker].add(job, rig.memory().made[1]);
      if (text.empty()) continue;
      ++failed;
      printf("%s visit %llu; %s visit %llu: %s\n", job.first.place, (unsigned long long)job.first.visit, job.second.place,
             (unsigned long long)job.second.visit, text.c_str());
      fflush(stdout);
    }
    return failed > 0 ? 1 : 0;
  }

  std::string folder_;
  SharedMemory<Tally> tally_;
  std::map<std::string, uint64_t> seen_;
  std::set<uint64_t> rows_;
};

TEST_F(ServerCrash, TheClientGoesOnWhereverTheServerDiesAndTheNextInItsAdoption) {
  ServerRig whole(path(0));
  ASSERT_EQ(play(whole, {}), "");
  ASSERT_EQ(rows_.size(), kStepsOfTwo - 1 + 3);
  const Visits& visits = whole.memory().all[0];
  std::vector<Job> jobs;
  if (const char* one = getenv("GEAR_CRASH_SERVER_AT")) {
    // "lib/...:line visit", to look at one death.
    std::string text = one;
    size_t space = text.find(' ');
    jobs.push_back({death_at(text.substr(0, space), std::stoull(text.substr(space))), {}});
    return work_off(jobs, [this](ServerRig& rig, const Job& job) { return play(rig, job); });
  }
  for (uint32_t i = 0; i < visits.count; ++i) {
    for (uint64_t visit : phases(visits.at[i].visit)) jobs.push_back({death_at(visits.at[i].place, visit), {}});
  }
  auto play_one = [this](ServerRig& rig, const Job& job) { return play(rig, job); };
  work_off(jobs, play_one);
  if (HasFailure()) return;

  std::vector<Job> second;
  for (const Found& found : tally_->found) {
    for (uint32_t i = 0; i < found.count; ++i) {
      Job job = found.jobs[i];
      for (uint64_t visit : {uint64_t{1}, found.jobs[i].second.visit}) {
        job.second.visit = visit;
        second.push_back(job);
        if (visit == found.jobs[i].second.visit) break;
      }
    }
  }
  work_off(second, play_one);
}

TEST_F(ServerCrash, WhatAClientHeldComesBackWhereverItDies) {
  auto die = [](ServerRig& rig, const Job& job) {
    rig.start();
    fflush(nullptr);
    pid_t pid = fork();
    if (pid == 0) {
      alarm(30);
      std::map<std::string, uint64_t> before = crash_points_visits();
      crash_points_arm_at(job.first.place, job.first.visit);
      std::string text = ServerScript(rig.endpoint(), &rig.memory()).run();
      if (!text.empty()) printf("%s\n", text.c_str());
      rig.memory().client.save(before);
      fflush(stdout);
      _exit(text.empty() ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    bool died = WIFEXITED(status) && WEXITSTATUS(status) == kCrashStatus;
    std::string text = died || status == 0 ? "" : "the client ended with " + std::to_string(status) + "; ";
    if (died) ++rig.memory().died;
    {
      ServerScript after(rig.endpoint(), &rig.memory());
      if (text.empty()) text = after.connect();
      gear_table* table = nullptr;
      if (text.empty() && gear_table_open(after.client(), "main", &table) == GEAR_OK) {
        gear_table_detach(table);
        text = check_survivor(after, rig.memory());
      }
    }
    return text + rig.stop();
  };
  ServerRig whole(path(0));
  ASSERT_EQ(die(whole, {}), "");
  const Visits& visits = whole.memory().client;
  std::vector<Job> jobs;
  for (uint32_t i = 0; i < visits.count; ++i) {
    uint64_t step = std::max<uint64_t>(visits.at[i].visit / 24, 1);
    for (uint64_t visit = 1; visit <= visits.at[i].visit; visit += step) {
      jobs.push_back({death_at(visits.at[i].place, visit), {}});
    }
  }
  work_off(jobs, die);
}

}  // namespace
}  // namespace gear::test
