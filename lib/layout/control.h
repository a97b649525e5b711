// The control protocol: requests and replies over a SOCK_SEQPACKET Unix socket, one message each way, host byte order
// (both ends are on one machine). A message is a ControlHeader and a body of the op's struct; a reply repeats op and
// request_id. A reply with a status other than GEAR_OK has the error text as its body. Descriptors travel as
// SCM_RIGHTS of the reply, in the order stated.
#pragma once

#include "layout/directory.h"

namespace gear::layout {

inline constexpr uint32_t kControlMagic = 0x52414547u;  // "GEAR" in memory order
inline constexpr uint16_t kControlVersion = 1;
inline constexpr uint32_t kControlBytesMax = 128 * 1024;
inline constexpr uint32_t kControlTextMax = 1024;
inline constexpr uint32_t kControlDescriptorsMax = 2 + kPartsMax;  // a directory and its parts; even

enum class ControlOp : uint16_t {
  kHello = 1,       // HelloRequest -> HelloReply; descriptors: instance (read-only), doorbell (eventfd)
  kTableCreate = 2, // TableCreateRequest, ColumnSpec[], SelectorSpec[] -> TableReply; descriptors: directory, data or
                    // all its parts in their order (all read-only)
  kTableOpen = 3,   // TableNameRequest -> as kTableCreate
  kTableAttach = 4, // TableAttachRequest -> as kTableCreate
  kTableDrop = 5,   // TableNameRequest -> nothing
  kTableClose = 6,  // TableIdRequest -> nothing
  kTableReset = 7,  // TableIdRequest -> nothing
  kTableList = 8,   // nothing -> names, each NUL-terminated, as many as fit
  kWriterOpen = 9,  // WriterOpenRequest, names u64[] when named -> ChannelReply; descriptors: channel, data or
                    // its part (both writable)
  kSamplerOpen = 10,  // SamplerOpenRequest -> ChannelReply; descriptor: channel
  kItemsOpen = 11,    // TableIdRequest -> ChannelReply; descriptor: channel
  kChannelClose = 12, // ChannelIdRequest -> nothing
  kServerInfo = 13,   // nothing -> ServerInfoReply
  kGoodbye = 14,      // nothing -> nothing; the client is about to close the socket
  kTableRetune = 15,  // TableRetuneRequest -> nothing
  kTableVersion = 16, // TableVersionRequest -> nothing
  kGroupStats = 17,   // GroupRequest -> GroupStatsReply
  kGroupList = 18,    // TableIdRequest -> names, each NUL-terminated, as many as fit
  kGroupDrop = 19     // GroupRequest -> nothing
};

constexpr bool opens_channel(ControlOp op) {
  return op == ControlOp::kWriterOpen || op == ControlOp::kSamplerOpen || op == ControlOp::kItemsOpen;
}

struct ControlHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t op;
  uint32_t request_id;
  uint32_t body_bytes;
  int32_t status;
  uint32_t descriptor_count;
};
static_assert(sizeof(ControlHeader) == 24);

// A client whose server died greets the next one of the same instance with the session that it had: `session` and `token`
// of the first HelloReply. Resumed, it keeps its channels, mappings and leases; only the socket and the doorbell are new.
// ENOTFOUND when the server does not know the session (any more), EPERM when token or process are another's.
// Behind the struct of a returning client come `channels` ids, u32 each: the channels that it has. Others of its session
// are of requests whose reply it never saw, or that it closed meanwhile; the server closes them, as kChannelClose does.
struct HelloRequest {
  uint32_t layout_version;
  uint32_t channels;  // 0 with session 0
  uint64_t fingerprint;
  char name[64];
  uint64_t session;   // 0: a new one
  uint8_t token[16];
};
struct HelloReply {
  uint64_t instance_id;
  uint32_t client_id;
  uint32_t pid;
  uint64_t session;
  uint8_t token[16];  // secret between this client and the server
};

struct ColumnSpec {
  char name[kNameBytesMax + 1];
  uint32_t dtype;
  uint32_t rank;
  uint32_t element_bytes;
  uint32_t flags;
  int64_t shape[kRankMax];
};
static_assert(sizeof(ColumnSpec) == 336);

struct SelectorSpec {
  char name[kSelectorNameBytesMax + 1];
  uint32_t selector;
  uint32_t top_k;
  double alpha;
  double epsilon;
  double half_life;
  double proportion;
};
static_assert(sizeof(SelectorSpec) == 72);

struct TableCreateRequest {
  char name[kNameBytesMax + 1];
  uint64_t capacity_items;
  uint64_t capacity_steps;
  uint64_t episode_steps_max;
  uint32_t column_count;
  uint32_t item_policy;
  uint32_t item_length;
  uint32_t item_period;
  uint32_t short_episodes;
  uint32_t sampler;
  uint32_t remover;
  uint32_t max_times_sampled;
  double priority_alpha;
  double priority_epsilon;
  LimiterRecord limiter;
  uint32_t lanes_max;
  uint32_t block_steps;
  uint32_t window_before_max;
  uint32_t window_after_max;
  uint32_t memory;
  uint32_t huge_pages;
  uint32_t populate;
  uint32_t lock;
  int32_t numa_node;
  uint32_t lease_timeout_ms;
  uint32_t selector_count;
  uint32_t top_k;
  double half_life;
  uint64_t capacity_bytes;
  uint32_t new_priority;
  uint32_t table_weights;
  uint32_t versions;
  uint32_t prompt_groups_max;
  uint32_t mode;            // permission bits as of a file; 0: 0600
  uint32_t payload_isolation;  // gear_isolation
  uint32_t writers_max;
  uint32_t reserved;
};
struct TableNameRequest {
  char name[kNameBytesMax + 1];
};
struct TableAttachRequest {
  uint64_t table_id;
  uint8_t secret[16];
};
struct TableIdRequest {
  uint64_t table_id;
};
struct TableReply {
  uint64_t table_id;
  uint64_t directory_bytes;
  uint64_t data_bytes;
  uint8_t secret[16];
};
struct WriterOpenRequest {
  uint64_t table_id;
  uint32_t lanes;
  uint32_t named;          // 1: `lanes` names follow
  uint32_t take_over;      // 1: names that are open elsewhere are taken over
  uint32_t reserved;
};
inline constexpr uint32_t kGroupNameBytesMax = 63;
struct SamplerOpenRequest {
  uint64_t table_id;
  uint64_t seed;
  uint32_t direct;         // 1: this channel only watches
  uint32_t prefetch;
  uint32_t batch_rows_max;
  uint32_t batches_max;
  uint32_t index;          // of the table's indexes: the selector to draw by
  uint32_t unique;
  uint32_t version_policy; // gear_version_policy
  uint32_t group_from;
  uint64_t version_lag;
  char group[kGroupNameBytesMax + 1];  // empty: no group
};
struct TableRetuneRequest {
  uint64_t table_id;
  LimiterRecord limiter;
};
struct TableVersionRequest {
  uint64_t table_id;
  uint64_t version;
};
struct GroupRequest {
  uint64_t table_id;
  char group[kGroupNameBytesMax + 1];
};
struct GroupStatsReply {
  uint32_t consumers;
  uint32_t reserved;
  uint64_t lag;
  uint64_t in_flight;
  uint64_t delivered;
  uint64_t acknowledged;
  uint64_t redelivered;
  uint64_t missed;
  uint64_t skipped;
};
struct ChannelReply {
  uint32_t channel_id;
  uint32_t part;           // of a writer whose table has parts; else 0
  uint64_t channel_bytes;
};
struct ChannelIdRequest {
  uint32_t channel_id;
  uint32_t reserved;
};
struct ServerInfoReply {
  uint32_t pid;
  uint32_t version;
  uint32_t layout_version;
  uint32_t clients;
  uint64_t fingerprint;
  uint64_t instance_id;
  uint64_t uptime_ns;
  uint32_t tables;
  uint32_t writers;
  uint32_t samplers;
  uint32_t reserved;
  uint64_t records;
  uint64_t wakeups;
  char event_loop[16];
};

// The 48 bytes behind the 64 printable bytes of a table handle (base64url).
struct HandleBytes {
  uint32_t magic;        // kHandleMagic
  uint32_t version;      // kControlVersion
  uint64_t instance_id;  // finds the server: it listens on the abstract socket "gear/" and this in hex
  uint64_t table_id;
  uint8_t secret[16];
  uint64_t checksum;     // FNV-1a of the bytes before
};
static_assert(sizeof(HandleBytes) == 48);
inline constexpr uint32_t kHandleMagic = 0x484c4247u;

}  // namespace gear::layout
