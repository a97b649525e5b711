// The control protocol, server's side: messages of any bytes through a socket, sound requests with words of theirs changed among them,
// answered by a server's Requests with a conductor and real, tiny tables.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iterator>
#include <vector>

#include "fuzz/input.h"
#include "fuzz/small_table.h"
#include "layout/fingerprint.h"
#include "server/requests.h"

namespace {

using namespace gear;
using layout::ControlOp;
using test::Input;

// Made once: they cost threads and sockets.
struct Machine {
  Machine() {
    signal(SIGXFSZ, SIG_IGN);
    options.tables_max = 3;
    options.channels_max = 6;
    options.clients_max = 4;
    auto made = Instance::create(options);
    if (!made.ok() || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) abort();
    instance = made.take();
    auto polling = create_epoll_loop();
    if (!polling.ok()) abort();
    loop = polling.take();
  }
  ServerOptions options;
  std::unique_ptr<Instance> instance;
  std::unique_ptr<EventLoop> loop;
  TableMaker maker;
  int ends[2];
};

// No segment over 4 MiB: a table of any size is a fair wish, and must fail cleanly where it does not fit.
class SmallMemory {
 public:
  SmallMemory() {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = before_;
    small.rlim_cur = 4 << 20;
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallMemory() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

template <typename T>
void append(std::vector<char>& body, const T& value) {
  size_t before = body.size();
  body.resize(before + sizeof value);
  memcpy(body.data() + before, &value, sizeof value);
}

const char* const kNames[] = {"a", "b", "c", "", "a/b"};

// What a client was told.
struct World {
  uint64_t table = 1;
  uint32_t channel = 1;
  uint8_t secret[16] = {};
  uint64_t session = 0;
  uint8_t token[16] = {};
};

// Greets anew, or returns: with its token or another, and the channels that it has.
std::vector<char> hello_body(Input& input, const World& world) {
  uint8_t form = input.byte();
  layout::HelloRequest hello{};
  hello.layout_version = layout::kLayoutVersion;
  hello.fingerprint = layout::kLayoutFingerprint;
  strcpy(hello.name, kNames[form % 4]);
  if (form >= 0x40) {
    hello.session = form < 0xc0 ? world.session : input.number();
    memcpy(hello.token, world.token, sizeof hello.token);
    hello.token[0] ^= form % 8 == 7;
    hello.channels = form / 8 % 4;
  }
  std::vector<char> body;
  append(body, hello);
  for (uint32_t i = 0; i < hello.channels; ++i) append(body, i == 0 ? world.channel : uint32_t{input.byte()});
  return body;
}

std::vector<char> create_body(Input& input) {
  uint8_t form = input.byte();
  auto request = test::small_request(kNames[input.byte() % std::size(kNames)]);
  if ((form & 1) != 0) request.item_policy = GEAR_ITEMS_EXPLICIT;
  if ((form & 2) != 0) request.versions = 1;
  if ((form & 4) != 0) request.max_times_sampled = 2;
  if ((form & 8) != 0) request.prompt_groups_max = 2;
  request.column_count = form / 16 % 3 + 1;
  request.selector_count = form / 64 % 2;
  std::vector<char> body;
  append(body, request);
  const char* const columns[] = {"x", "y", "goal"};
  for (uint32_t i = 0; i < request.column_count; ++i) {
    append(body, test::small_column(columns[i], i == 2 ? GEAR_COLUMN_PER_EPISODE : 0));
  }
  if (request.selector_count > 0) {
    layout::SelectorSpec selector{};
    strcpy(selector.name, "n");
    selector.selector = GEAR_SELECT_UNIFORM;
    append(body, selector);
  }
  return body;
}

// What a sound client sends for the op.
std::vector<char> sound_body(ControlOp op, Input& input, const World& world) {
  std::vector<char> body;
  switch (op) {
    case ControlOp::kHello: return hello_body(input, world);
    case ControlOp::kTableCreate: return create_body(input);
    case ControlOp::kTableOpen:
    case ControlOp::kTableDrop: {
      layout::TableNameRequest name{};
      strcpy(name.name, kNames[input.byte() % std::size(kNames)]);
      append(body, name);
      break;
    }
    case ControlOp::kTableAttach: {
      layout::TableAttachRequest attach{};
      attach.table_id = world.table;
      memcpy(attach.secret, world.secret, sizeof attach.secret);
      append(body, attach);
      break;
    }
    case ControlOp::kWriterOpen: {
      uint8_t form = input.byte();
      layout::WriterOpenRequest writer{world.table, form % 3 + 1u, form % 8 != 7, form / 8 % 2u, 0};
      append(body, writer);
      for (uint32_t i = 0; writer.named != 0 && i < writer.lanes; ++i) append(body, uint64_t{input.byte() % 4u});
      break;
    }
    case ControlOp::kSamplerOpen: {
      uint8_t form = input.byte();
      layout::SamplerOpenRequest sampler{};
      sampler.table_id = world.table;
      sampler.direct = form % 2;
      sampler.prefetch = form / 2 % 2 * 4;
      sampler.batch_rows_max = 2;
      sampler.batches_max = 2;
      sampler.unique = form / 4 % 2;
      sampler.version_policy = form / 8 % 3;
      sampler.version_lag = form / 32 % 2;
      sampler.index = form % 16 == 15 ? input.byte() % 4 : 0;
      if ((form & 0x80) != 0) strcpy(sampler.group, (form & 0x40) != 0 ? "g" : "h");
      sampler.group_from = form / 32 % 2;
      append(body, sampler);
      break;
    }
    case ControlOp::kChannelClose: append(body, layout::ChannelIdRequest{world.channel, 0}); break;
    case ControlOp::kTableRetune: {
      uint8_t form = input.byte();
      append(body, layout::TableRetuneRequest{world.table, {1.0 + form % 2, 1, form < 0x80 ? -1e300 : -4, form < 0x80 ? 1e300 : 4}});
      break;
    }
    case ControlOp::kTableVersion: append(body, layout::TableVersionRequest{world.table, input.byte()}); break;
    case ControlOp::kGroupStats:
    case ControlOp::kGroupDrop: {
      layout::GroupRequest group{};
      group.table_id = world.table;
      strcpy(group.group, input.byte() % 4 == 0 ? "none" : "g");
      append(body, group);
      break;
    }
    case ControlOp::kTableClose:
    case ControlOp::kTableReset:
    case ControlOp::kItemsOpen:
    case ControlOp::kGroupList: append(body, layout::TableIdRequest{world.table}); break;
    default: break;
  }
  return body;
}

// Sends a request whose header and body are sound but for some words; false when nothing was sent.
bool send_request(Input& input, const Machine& machine, const World& world) {
  uint8_t what = input.byte();
  layout::ControlHeader header{};
  header.magic = layout::kControlMagic;
  header.version = layout::kControlVersion;
  header.op = what < 0xf0 ? what % 20 : input.take<uint16_t>();
  std::vector<char> body = sound_body(static_cast<ControlOp>(header.op), input, world);
  uint8_t changes = input.byte();
  for (uint32_t i = changes < 0x80 ? 0 : changes % 8; i > 0 && body.size() >= 4; --i) {
    size_t place = input.take<uint16_t>() % (body.size() / 4) * 4;
    auto value = static_cast<uint32_t>(input.number());
    memcpy(body.data() + place, &value, sizeof value);
  }
  if (changes % 64 == 63) body.resize(input.take<uint16_t>() % 4096);
  header.body_bytes = static_cast<uint32_t>(body.size());
  if (changes % 64 == 62) {
    uint32_t value = input.take<uint32_t>();
    memcpy(reinterpret_cast<char*>(&header) + input.byte() % 6 * 4, &value, sizeof value);
  }
  std::vector<char> message;
  append(message, header);
  message.insert(message.end(), body.begin(), body.end());
  if (changes % 64 == 61) message.resize(input.byte() % 48);
  return send(machine.ends[0], message.data(), message.size(), MSG_DONTWAIT) >= 0;
}

void learn(uint16_t op, const Reply& reply, World* world) {
  if (!reply.status.ok()) {
    if (reply.status.text().empty()) abort();
    return;
  }
  if (op == static_cast<uint16_t>(ControlOp::kHello)) {
    layout::HelloReply hello;
    memcpy(&hello, reply.body.data(), sizeof hello);
    world->session = hello.session;
    memcpy(world->token, hello.token, sizeof world->token);
  } else if (reply.body.size() == sizeof(layout::TableReply)) {
    layout::TableReply table;
    memcpy(&table, reply.body.data(), sizeof table);
    world->table = table.table_id;
    memcpy(world->secret, table.secret, sizeof world->secret);
  } else if (reply.body.size() == sizeof(layout::ChannelReply)) {
    layout::ChannelReply channel;
    memcpy(&channel, reply.body.data(), sizeof channel);
    world->channel = channel.channel_id;
  }
}

// The client's side, which believes the server's messages as little.
void send_reply(const Machine& machine, const layout::ControlHeader& request, const Reply& reply) {
  layout::ControlHeader header = request;
  header.status = reply.status.code();
  Status sent = send_message(machine.ends[1], header, reply.body.data(), reply.body.size(), reply.descriptors.data(),
                             reply.descriptors.size(), 0);
  if (!sent.ok()) return;
  std::vector<char> body(layout::kControlBytesMax);
  auto received = receive_message(machine.ends[0], body.data(), body.size(), 0);
  if (!received.ok()) abort();
}

void serve_one(Input& input, Machine& machine, Session& session, Requests& requests, Conductor& conductor, World* world) {
  if (!send_request(input, machine, *world)) return;
  std::vector<char> body(4096);
  auto received = receive_message(machine.ends[1], body.data(), body.size(), 0);
  if (!received.ok()) return;
  Reply reply = requests.answer(session, received.value().header, body.data());
  while (reply.later) {
    pollfd ready{machine.maker.ready_fd(), POLLIN, 0};
    int polled = poll(&ready, 1, 20'000);
    if (polled < 0 && errno == EINTR) continue;  // the fuzzer's own alarm
    if (polled <= 0) abort();
    for (TableMade& made : machine.maker.collect()) reply = requests.table_made(std::move(made));
  }
  learn(received.value().header.op, reply, world);
  // At times the client is gone before its answer, whose effect goes with it.
  if (input.byte() % 16 == 15) return requests.take_back(received.value().header.op, reply);
  send_reply(machine, received.value().header, reply);
  conductor.poll();
}

void greet(Session& session, Requests& requests, World* world) {
  layout::HelloRequest hello{};
  hello.layout_version = layout::kLayoutVersion;
  hello.fingerprint = layout::kLayoutFingerprint;
  layout::ControlHeader header{};
  header.op = static_cast<uint16_t>(ControlOp::kHello);
  header.body_bytes = sizeof hello;
  Reply reply = requests.answer(session, header, reinterpret_cast<const char*>(&hello));
  if (!reply.status.ok()) abort();
  learn(header.op, reply, world);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Machine& machine = *new Machine;
  Input input(data, size);
  SmallMemory small;
  Conductor conductor(machine.instance->ledger());
  Quotas quotas(machine.options.user_quotas, conductor);
  Sessions sessions(machine.options, *machine.loop, conductor, machine.instance->ledger(), quotas);
  Requests requests(machine.options, *machine.instance, conductor, machine.maker, sessions, quotas);
  SetAsideTable aside;
  aside.name = "c";
  aside.id = 77;
  aside.why = "it was damaged";
  requests.set_aside.push_back(std::move(aside));
  Session session;
  session.id = machine.instance->ledger().take_session_id();
  World world;
  // Most inputs need not find out how to greet, and have a table.
  uint8_t form = input.byte();
  if (form < 0xe0) greet(session, requests, &world);
  auto request = test::small_request("a");
  auto column = test::small_column();
  request.versions = form % 2;
  if (form % 8 < 4) conductor.add_table(test::make_bare(request, &column));
  for (uint32_t count = 0; count < 24 && !input.empty(); ++count) {
    serve_one(input, machine, session, requests, conductor, &world);
  }
  // As the server does when the client is dead: all of the ledger's records come back.
  conductor.close_ports_of(session.id);
  for (uint32_t polls = 0; polls < 100 && conductor.port_count() > 0; ++polls) conductor.poll();
  while (!conductor.tables().empty()) conductor.drop_table(*conductor.tables().front());
  conductor.poll();
  Ledger& ledger = machine.instance->ledger();
  if (session.record != nullptr) ledger.remove(session.record);
  if (conductor.port_count() > 0 || !ledger.sessions().empty() || !ledger.channels().empty()) abort();
  return 0;
}
