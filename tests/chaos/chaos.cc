// make chaos: writers, readers and consumers over one geard, each of which is killed or stopped at random, geard too, while
// survivors go on; after each round everything that was acknowledged is looked for, and everything that was held must be back.
//
// CHAOS_SECONDS (default 600) is the length, GEAR_TEST_SEED the choice of victims and moments; CHAOS_KILL_GEARD=0 leaves geard alone. The last line is
// "chaos: PASS" or "chaos: FAIL"; exit status 0 or 1.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "chaos/actors.h"
#include "chaos/supervisor.h"

namespace gear::chaos {
namespace {

constexpr int64_t kRoundNs = 10'000'000'000;
constexpr int64_t kTickNs = 4'000'000;
constexpr int64_t kServerKillNs = 1'500'000'000;  // on average
constexpr int64_t kKillNs = 40'000'000;
constexpr int64_t kStopNs = 250'000'000;
constexpr int64_t kAuditNs = 90'000'000'000;

enum class Role { kWriter, kReader, kConsumer };
constexpr Role kVictims[] = {Role::kWriter, Role::kWriter, Role::kWriter, Role::kReader, Role::kReader,
                             Role::kConsumer, Role::kConsumer};
constexpr Role kSurvivors[] = {Role::kWriter, Role::kReader, Role::kConsumer};

int64_t number(const char* name, int64_t otherwise) {
  const char* text = getenv(name);
  return text != nullptr ? atoll(text) : otherwise;
}

pid_t start(const std::function<int()>& body) {
  fflush(nullptr);
  pid_t pid = fork();
  if (pid == 0) _exit(body());
  return pid;
}

// Exit status 0, within the time given; else it is killed.
bool succeeds(pid_t pid, int64_t within_ns) {
  int64_t deadline = deadline_after(within_ns);
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (left_until(deadline) == 0) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return false;
    }
    usleep(1'000);
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class Run {
 public:
  Run(int64_t seconds, uint64_t seed, const char* server)
      : board_(make_board()), rng_(seed), supervisor_(board_, server), place_{board_, supervisor_.endpoint()},
        end_ns_(now_ns() + seconds * 1'000'000'000) {}

  bool all() {
    if (!supervisor_.start()) {
      fprintf(stderr, "chaos: geard does not start\n");
      return false;
    }
    segments_ = supervisor_.segments();
    while (now_ns() < end_ns_ && !failed()) round();
    bool clean = supervisor_.stop();
    if (!clean) fprintf(stderr, "chaos: geard did not end cleanly\n");
    if (supervisor_.segments() > 0) {
      board_->leaked += supervisor_.segments();
      fprintf(stderr, "chaos: %zu segments left in /dev/shm\n", supervisor_.segments());
    }
    table();
    return clean && !failed();
  }

 private:
  struct Actor {
    Role role;
    pid_t pid = -1;
    int64_t continue_ns = 0;  // stopped until then
  };

  // A time that is exponential around `mean`: no moment is left out.
  int64_t after(int64_t mean_ns) {
    double unit = std::max(rng_.unit(), 1e-9);
    return now_ns() + static_cast<int64_t>(static_cast<double>(mean_ns) * -__builtin_log(unit));
  }

  void round();
  void begin(std::vector<pid_t>* survivors);
  void storm(int64_t until_ns);
  void hit(Actor& actor);
  void play(Actor& actor);
  pid_t play(Role role, bool survivor);
  void finish(const std::vector<pid_t>& survivors);
  void check_server();
  bool failed() const;
  void table() const;

  Board* board_;
  Rng rng_;
  Supervisor supervisor_;
  Place place_;
  int64_t end_ns_;
  bool judge_times_ = getenv("CHAOS_TIMES") == nullptr;  // CHAOS_TIMES=report: not
  bool kill_server_ = number("CHAOS_KILL_GEARD", 1) != 0;
  uint32_t next_writer_ = 0;
  std::vector<Actor> victims_;
  pid_t bystander_ = -1;
  uint64_t rounds_ = 0;
  uint64_t kills_ = 0;
  uint64_t stops_ = 0;
  uint64_t stuck_ = 0;
  uint64_t broken_ = 0;  // audits and other children that failed
  size_t descriptors_ = 0;
  size_t segments_ = 0;
};

pid_t Run::play(Role role, bool survivor) {
  Place place = place_;
  uint32_t id = role == Role::kWriter ? next_writer_++ : 0;
  return start([place, role, survivor, id] {
    switch (role) {
      case Role::kWriter: return run_writer(place, id, survivor);
      case Role::kReader: return run_reader(place, survivor);
      case Role::kConsumer: return run_consumer(place, survivor);
    }
    return 1;
  });
}

void Run::play(Actor& actor) {
  if (actor.role == Role::kWriter && next_writer_ >= kWriterIds) return;
  actor.pid = play(actor.role, false);
  actor.continue_ns = 0;
}

void Run::begin(std::vector<pid_t>* survivors) {
  board_->begin_round();
  next_writer_ = 0;
  Place place = place_;
  if (!succeeds(start([place] { return create_tables(place); }), kAuditNs)) ++broken_;
  bystander_ = start([place] { return run_bystander(place); });
  for (Role role : kSurvivors) survivors->push_back(play(role, true));
  victims_.clear();
  for (Role role : kVictims) victims_.push_back({role});
}

// Kills, or stops and kills or lets go on.
void Run::hit(Actor& actor) {
  if (actor.pid <= 0) return;
  kill(actor.pid, SIGKILL);
  waitpid(actor.pid, nullptr, 0);
  actor.pid = -1;
  ++kills_;
}

void Run::storm(int64_t until_ns) {
  int64_t kill_ns = after(kKillNs), stop_ns = after(kStopNs), server_ns = after(kServerKillNs);
  while (now_ns() < until_ns) {
    for (Actor& actor : victims_) {
      // A writer that has no row left to write ends by itself.
      if (actor.pid > 0 && waitpid(actor.pid, nullptr, WNOHANG) == actor.pid) actor.pid = -1;
      if (actor.pid <= 0) play(actor);
      if (actor.continue_ns != 0 && now_ns() >= actor.continue_ns) {
        kill(actor.pid, SIGCONT);
        actor.continue_ns = 0;
      }
    }
    if (now_ns() >= kill_ns) {
      hit(victims_[rng_.below(victims_.size())]);
      kill_ns = after(kKillNs);
    }
    if (now_ns() >= stop_ns) {
      Actor& actor = victims_[rng_.below(victims_.size())];
      if (actor.pid > 0 && kill(actor.pid, SIGSTOP) == 0) ++stops_;
      actor.continue_ns = after(100'000'000);
      stop_ns = after(kStopNs);
    }
    if (now_ns() >= server_ns && kill_server_) {
      supervisor_.kill_now();
      server_ns = after(kServerKillNs);
    }
    if (!supervisor_.keep_alive()) {
      ++broken_;
      return;
    }
    usleep(kTickNs / 1000);
  }
}

void Run::finish(const std::vector<pid_t>& survivors) {
  for (Actor& actor : victims_) hit(actor);
  board_->stop = 1;
  for (pid_t pid : survivors) {
    if (succeeds(pid, 10'000'000'000)) continue;
    ++stuck_;
    fprintf(stderr, "chaos: survivor %d did not end well\n", pid);
  }
  succeeds(bystander_, 1'000'000'000);
  Place place = place_;
  if (!succeeds(start([place] { return run_audit(place); }), kAuditNs)) ++broken_;
}

// What geard holds once all clients are gone is always the same.
void Run::check_server() {
  for (int i = 0; i < 500 && rounds_ > 1 && supervisor_.descriptors() > descriptors_; ++i) usleep(2'000);
  if (rounds_ == 1) descriptors_ = supervisor_.descriptors();
  if (supervisor_.descriptors() > descriptors_ || supervisor_.segments() > segments_) {
    ++board_->leaked;
    fprintf(stderr, "chaos: leaked: geard has %zu descriptors and %zu segments, and should have %zu and %zu\n",
            supervisor_.descriptors(), supervisor_.segments(), descriptors_, segments_);
    supervisor_.print_descriptors();
  }
}

void Run::round() {
  ++rounds_;
  std::vector<pid_t> survivors;
  begin(&survivors);
  storm(std::min(now_ns() + kRoundNs, std::max(end_ns_, now_ns() + kRoundNs / 4)));
  finish(survivors);
  check_server();
  printf("round %llu: %llu kills of clients, %llu of geard, %llu stops; %llu steps acknowledged, %llu rows checked%s\n",
         static_cast<unsigned long long>(rounds_), static_cast<unsigned long long>(kills_),
         static_cast<unsigned long long>(supervisor_.kills()), static_cast<unsigned long long>(stops_),
         static_cast<unsigned long long>(board_->steps_acknowledged.load()),
         static_cast<unsigned long long>(board_->rows_checked.load()), failed() ? ": FAILED" : "");
  fflush(stdout);
}

bool Run::failed() const {
  const Board& board = *board_;
  return board.torn + board.lost + board.holes + board.duplicates + board.after_acknowledged + board.direct_errors +
             board.errors + (judge_times_ ? board.blocked.load() : 0) + board.leaked + supervisor_.deaths() + stuck_ + broken_ >
         0;
}

void Run::table() const {
  struct Line {
    const char* what;
    unsigned long long value;
    bool must_be_0;
  };
  const Board& board = *board_;
  const Line lines[] = {{"rounds", rounds_, false},
                        {"kills of clients", kills_, false},
                        {"kills of geard", supervisor_.kills(), false},
                        {"stops of clients", stops_, false},
                        {"steps acknowledged", board.steps_acknowledged, false},
                        {"episodes acknowledged, each with an item", board.tales, false},
                        {"rows checked, cell by cell", board.rows_checked, false},
                        {"rows delivered to the group", board.delivered_rows, false},
                        {"of them delivered again", board.redelivered_rows, false},
                        {"rows acknowledged by consumers", board.acknowledged_rows, false},
                        {"longest time geard was down, ms", static_cast<uint64_t>(supervisor_.longest_down_ns()) / 1'000'000, false},
                        {"longest call of a survivor, ms", static_cast<uint64_t>(board.longest_call_ns) / 1'000'000, false},
                        {"longer ones, geard down or machine still", board.excused, false},
                        {"torn rows", board.torn, true},
                        {"acknowledged steps lost", board.lost, true},
                        {"holes in a writer's steps", board.holes, true},
                        {"duplicates not marked redelivered", board.duplicates, true},
                        {"deliveries after acknowledgement", board.after_acknowledged, true},
                        {"errors of direct samplers", board.direct_errors, true},
                        {"statuses without a documented reason", board.errors, true},
                        {"calls blocked over 200 ms by a death", board.blocked, judge_times_},
                        {"survivors that did not end", stuck_, true},
                        {"deaths of geard by itself", supervisor_.deaths(), true},
                        {"audits that failed", broken_, true},
                        {"blocks, segments, descriptors leaked", board.leaked, true}};
  for (const Line& line : lines) {
    printf("%-44s %12llu%s\n", line.what, line.value, !line.must_be_0 ? "" : line.value == 0 ? "  ok" : "  MUST BE 0");
  }
}

}  // namespace
}  // namespace gear::chaos

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    printf("usage: gear_chaos GEARD\n\nKills and stops clients of GEARD, and it, for CHAOS_SECONDS (default 600); GEAR_TEST_SEED\n"
           "chooses the victims; CHAOS_KILL_GEARD=0 leaves GEARD alone. Prints a table, and chaos: PASS or chaos: FAIL.\n");
    return argc == 2 ? 0 : 2;
  }
  auto seed = static_cast<uint64_t>(gear::chaos::number("GEAR_TEST_SEED", getpid()));
  int64_t seconds = gear::chaos::number("CHAOS_SECONDS", 600);
  printf("chaos: %lld s, GEAR_TEST_SEED=%llu\n", static_cast<long long>(seconds), static_cast<unsigned long long>(seed));
  gear::chaos::Run run(seconds, seed, argv[1]);
  bool passed = run.all();
  printf("chaos: %s\n", passed ? "PASS" : "FAIL");
  return passed ? 0 : 1;
}
