/* gear.h: the C interface of GEAR, a shared-memory experience-replay service.
 *
 * Actors append steps to lanes of a table; learners draw batches from it. The table lives in shared
 * memory owned by a server: the daemon geard, or a thread of this process (endpoint "embedded:").
 *
 * Conventions, valid for every function unless its comment says otherwise:
 *
 *  1. A function returns GEAR_OK (0) or a negative gear_status. A call that returned an error had no
 *     effect, now or later. gear_last_error() then gives this thread's text: what was tried, with which
 *     values, and the remedy. Outputs come last and are written only on GEAR_OK.
 *  2. Option structs begin with struct_size and are initialised by their GEAR_..._INIT macro; a zero
 *     field means its default. Fields may be added at the end in later versions.
 *  3. Blocking calls take timeout_ns, in nanoseconds, relative; 0 does not wait for the table to change,
 *     though a call that has to ask the server may take one round trip, about 1 ms at most. No call
 *     waits without a bound. Calls without a timeout that talk to the server are bounded by the client's
 *     request_timeout_ns.
 *  4. Client and table handles may be used by several threads at once. A writer or a sampler belongs
 *     to one thread at a time, whichever; its thread may end before it. A batch may be read by several
 *     threads; it is released once, by any of them. Any thread may close a handle while others are in calls on
 *     it: those that wait end with GEAR_ECLOSED, the close waits for all to return, and a later call with the
 *     handle answers GEAR_EINVAL (until a few hundred other handles were closed; then it is undefined, as for
 *     freed memory). GEAR_EBUSY: a call did not return within request_timeout_ns, as when a handle is closed from
 *     within a callback of a call on it; close once more.
 *  5. Strings are NUL-terminated UTF-8. Strings given are copied; strings returned live as long as the
 *     handle they came from.
 *  6. Shapes are in elements, strides in bytes, sizes in bytes, times in nanoseconds.
 *  7. In steady state append, reserve/advance, direct sampling and batch release make no system call,
 *     no heap allocation and no round trip to the server.
 *  8. A forked child may read and release the batches it inherited (its parent's stay held; the release of a group's
 *     batch acknowledges nothing there: GEAR_ESTALE); every other call on an inherited handle answers GEAR_ESTATE and
 *     leaves the parent's connection alone. The child connects anew. exec closes all that a client holds.
 *  9. A signal handler that runs during a call does not end it: waits go on to their own timeout. No function may be
 *     called from a signal handler.
 * 10. A geard that dies and is started again on its socket goes on with its tables, and clients find it by
 *     themselves; handles, batches and keys stay valid. Meanwhile direct draws go on, appends go on while there is
 *     granted space, other calls wait for the server's return up to their timeout, and then answer
 *     GEAR_EDISCONNECTED. So they do at once after reconnect_timeout_ns, and where the server that came back does not
 *     know the client: then close it, and connect anew. What is in a memfd goes with geard: of its tables the next one's
 *     clients get GEAR_EDROPPED, and where channels were in memfds too (geard --memory memfd) direct draws go on over
 *     what was there, until the client calls for anything else. Steps that were appended and not flushed stay in shared
 *     memory and are admitted once the server is back.
 *
 * The file goes from simple to advanced: 1 status, 2 client, 3 table, 4 writer, 5 sampler, 6 batch,
 * 7 items, 8 introspection. docs/examples/hello.c is the smallest whole program.
 */
#ifndef GEAR_H
#define GEAR_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define GEAR_API __attribute__((visibility("default")))
#else
#define GEAR_API
#endif

#define GEAR_VERSION_MAJOR 0
#define GEAR_VERSION_MINOR 1
#define GEAR_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ 1. status */

typedef enum gear_status {
  GEAR_OK = 0,

  /* 1xx: an argument is wrong; the caller can mend it. */
  GEAR_EINVAL = -100,    /* value out of its domain, NULL where a pointer is needed */
  GEAR_ESTRUCT = -101,   /* struct_size is not one this library knows */
  GEAR_ENAME = -102,     /* name empty, over 255 bytes, or not UTF-8 */
  GEAR_EDUPLICATE = -103, /* two columns, windows or cells with one name */
  GEAR_ENOCOLUMN = -104, /* the table has no such column */
  GEAR_EDTYPE = -105,    /* cell dtype is not the column's; GEAR never casts */
  GEAR_ESHAPE = -106,    /* cell rank or shape is not the column's */
  GEAR_ECOUNT = -107,    /* a cell is missing, or there is one too many */
  GEAR_EPRIORITY = -108, /* priority is NaN, infinite or negative */
  GEAR_EWINDOW = -109,   /* window wider than the table keeps, or of length 0 where none is implied */
  GEAR_ELANE = -110,     /* lane index outside the writer's lanes */
  GEAR_ESIZE = -111,     /* zero or overflowing size or capacity */
  GEAR_EHANDLE = -112,   /* the 64 bytes are not a table handle */
  GEAR_ECONFIG = -113,   /* server options that contradict each other, configuration that cannot be read */

  /* 2xx: the thing is not in the state the call needs. */
  GEAR_ENOTFOUND = -200, /* no such table */
  GEAR_EEXISTS = -201,   /* a table of that name exists already */
  GEAR_ECLOSED = -202,   /* the table was closed: no further steps, no further draws */
  GEAR_EDROPPED = -203,  /* the table was dropped */
  GEAR_ESTALE = -204,    /* key, lease or batch of an earlier generation */
  GEAR_ESTATE = -205,    /* calls in an order that has no meaning (advance without reserve, ...) */
  GEAR_EBUSY = -206,     /* every batch of the sampler is held; release one */
  GEAR_EEPOCH = -207,    /* the epoch is over; gear_sampler_begin_epoch begins another */

  /* 3xx: something ran out. */
  GEAR_ENOMEM = -300,    /* memory of this process or of the server */
  GEAR_ENOSPC = -301,    /* shared memory, or blocks of a table with nothing left to evict */
  GEAR_EMFILE = -302,    /* file descriptors, here or in the server */
  GEAR_ELIMIT = -303,    /* a configured limit: clients, tables, lanes */
  GEAR_EMEMLOCK = -304,  /* RLIMIT_MEMLOCK is below what lock = required asks */

  /* 4xx: the server cannot be reached, or is not one we can talk to. */
  GEAR_ENOSERVER = -400, /* nothing listens there */
  GEAR_ENOTSOCKET = -401, /* the path is not a socket */
  GEAR_ESTALESOCKET = -402, /* the socket file is left over from a server that has gone */
  GEAR_EVERSION = -403,  /* protocol or layout differ; the text names both */
  GEAR_EPROTOCOL = -404, /* the peer broke the protocol */
  GEAR_EPERM = -405,     /* not permitted */
  GEAR_EDISCONNECTED = -406, /* the server is away; the text says for how long, why, and whether the call may have
                                had its effect (only a request that broke while it was answered may) */
  GEAR_EADDRINUSE = -407, /* another server serves this endpoint already */

  GEAR_ETIMEDOUT = -500, /* the time given ran out */

  GEAR_EUNSUPPORTED = -600, /* not in this build, on this kernel, or not in this version */
  GEAR_ESYSTEM = -601,   /* an unexpected error of a system call; the text carries errno */
  GEAR_EINTERNAL = -602, /* a broken invariant of GEAR itself: please report it */
  GEAR_ECORRUPT = -603   /* shared memory that breaks its own rules; the text names the values */
} gear_status;

/* Library version, (major << 16 | minor << 8 | patch), and as "0.1.0". Any thread, never fails. */
GEAR_API uint32_t gear_version(void);
GEAR_API const char *gear_version_string(void);

/* Name of a status, as "GEAR_ETIMEDOUT"; static storage, never NULL. */
GEAR_API const char *gear_status_string(int status);

/* Text of this thread's latest failed call; "" when none failed yet. Valid until this thread's next
 * failing call. */
GEAR_API const char *gear_last_error(void);

/* ------------------------------------------------------------------ 2. client */

typedef struct gear_client gear_client;

typedef struct gear_connect_options {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name;           /* shown by gearctl status; default the program's name */
  int64_t connect_timeout_ns; /* default 5 s */
  int64_t request_timeout_ns; /* bound of calls without a timeout of their own; default 30 s */
  int64_t reconnect_timeout_ns; /* how long after the loss of its server a client still goes back to the next one;
                                   default 60 s, below 0 (GEAR_RECONNECT_NEVER) not at all */
} gear_connect_options;
#define GEAR_RECONNECT_NEVER (-1)
#define GEAR_CONNECT_OPTIONS_INIT {sizeof(gear_connect_options), 0, NULL, 0, 0, 0}

/* Connects to a server. endpoint is one of
 *   NULL               $GEAR_ENDPOINT if set, else the user's default socket
 *                      ($XDG_RUNTIME_DIR/gear/geard.sock, /run/gear/geard.sock when root or unset)
 *   "unix:/path"       the daemon that listens there
 *   "embedded:"        a new server, run by a thread of this process; ends with its last client
 *   "embedded:name"    the same, shared by all who name it in this process
 *   "handle:XXXX..."   the server that made this table handle, wherever it listens on this machine
 * options may be NULL. Blocks up to connect_timeout_ns.
 * Errors: EINVAL, ENOSERVER, ENOTSOCKET, ESTALESOCKET, EPERM, EVERSION, ELIMIT, EMFILE, ETIMEDOUT. */
GEAR_API int gear_connect(const char *endpoint, const gear_connect_options *options,
                          gear_client **client);

/* Closes the client and every table, writer and sampler opened through it: their handles end too. Open episodes end as truncated. Batches that are
 * still held keep their memory and are released as usual. Blocks up to request_timeout_ns for calls of other
 * threads, see convention 4. Errors: EINVAL (another thread closes it), EBUSY. */
GEAR_API int gear_close(gear_client *client);

/* ------------------------------------------------------------------ 3. table */

typedef struct gear_table gear_table;

typedef enum gear_dtype {
  GEAR_BOOL = 1,
  GEAR_U8 = 2,
  GEAR_I8 = 3,
  GEAR_U16 = 4,
  GEAR_I16 = 5,
  GEAR_U32 = 6,
  GEAR_I32 = 7,
  GEAR_U64 = 8,
  GEAR_I64 = 9,
  GEAR_F16 = 10,
  GEAR_BF16 = 11,
  GEAR_F32 = 12,
  GEAR_F64 = 13,
  GEAR_C64 = 14,  /* two f32: real, imaginary */
  GEAR_BYTES = 15 /* element_bytes opaque bytes an element */
} gear_dtype;

#define GEAR_RANK_MAX 8
#define GEAR_COLUMNS_MAX 256
#define GEAR_NAME_BYTES_MAX 255

/* Column flags. */
#define GEAR_COLUMN_PER_EPISODE 1u /* one cell an episode, given by gear_writer_episode_cells */
#define GEAR_COLUMN_OPTIONAL 2u    /* a step may come without it: zeros, and false in the mask. Not together
                                      with per episode */

typedef struct gear_column_options {
  uint32_t struct_size;
  uint32_t dtype;         /* gear_dtype */
  const char *name;       /* 1 to 255 bytes, unique in the table */
  uint32_t rank;          /* 0 to GEAR_RANK_MAX */
  uint32_t element_bytes; /* GEAR_BYTES only: bytes an element, at least 1 */
  uint32_t flags;
  uint32_t reserved;
  int64_t shape[GEAR_RANK_MAX]; /* of one step's (or episode's) cell; every extent at least 1 */
} gear_column_options;
#define GEAR_COLUMN_OPTIONS_INIT \
  {sizeof(gear_column_options), 0, NULL, 0, 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}}

/* How items come to be. An item is a range of steps of one episode: what a sampler draws. */
typedef enum gear_item_policy {
  GEAR_ITEMS_STEP = 0,     /* every step is an item */
  GEAR_ITEMS_EPISODE = 1,  /* every episode is an item, made at its end */
  GEAR_ITEMS_SEQUENCE = 2, /* runs of item_length steps, one every item_period steps */
  GEAR_ITEMS_EXPLICIT = 3  /* the writer calls gear_writer_item */
} gear_item_policy;

typedef enum gear_selector {
  GEAR_SELECT_DEFAULT = 0,    /* sampler: uniform; remover: fifo */
  GEAR_SELECT_UNIFORM = 1,    /* O(1) */
  GEAR_SELECT_FIFO = 2,       /* oldest inserted first; O(1) */
  GEAR_SELECT_PRIORITIZED = 3, /* P(i) proportional to (p_i + epsilon)^alpha; O(log n).
                                 Schaul et al., Prioritized Experience Replay, ICLR 2016, eq. 1 */
  GEAR_SELECT_LIFO = 4,       /* newest inserted first; O(1) */
  GEAR_SELECT_MAX_HEAP = 5,   /* largest priority first; equal ones least recently inserted or updated
                                 first; O(log n) */
  GEAR_SELECT_MIN_HEAP = 6,   /* smallest priority first; ties as max_heap */
  GEAR_SELECT_TOP_K = 7,      /* uniform over the `top_k` items of largest priority; O(log n) */
  GEAR_SELECT_RECENCY = 8,    /* P proportional to 2^(-age / half_life), age in insertions since; O(log n) */
  GEAR_SELECT_MIXTURE = 9     /* one of the table's named selectors, by their proportions. Sampler only */
} gear_selector;

/* A selector beside the table's sampler, under a name: for samplers that ask for it by that name, and for
 * GEAR_SELECT_MIXTURE, whose draws come from the named ones in their proportions. */
#define GEAR_SELECTORS_MAX 4
typedef struct gear_selector_options {
  uint32_t struct_size;
  uint32_t selector; /* gear_selector; not mixture */
  const char *name;  /* 1 to 31 bytes, unique in the table */
  double proportion; /* of a mixture's draws: relative to the others'; 0: only drawn by name. A mixture draws item i
                        with probability sum of q_j * P_j(i), q_j the proportions of the selectors that can draw
                        now, divided by their sum */
  double alpha;      /* prioritized; as priority_alpha and priority_epsilon of the table */
  double epsilon;
  double half_life;  /* recency: insertions; >= 0.5 */
  uint32_t top_k;    /* top_k: >= 1 */
  uint32_t reserved;
} gear_selector_options;
#define GEAR_SELECTOR_OPTIONS_INIT {sizeof(gear_selector_options), 0, NULL, 0.0, 0.0, 0.0, 0.0, 0, 0}

/* The priority that a new item takes unless its writer gives one. */
typedef enum gear_new_priority {
  GEAR_NEW_PRIORITY_LIFETIME_MAX = 0, /* the largest raw priority ever seen, 1 when none */
  GEAR_NEW_PRIORITY_TABLE_MAX = 1     /* the largest raw priority now in the table, 1 when none; costs an
                                         index of 24 bytes an item */
} gear_new_priority;

/* Admits n draws when        size >= min_size and inserts*s - samples - n >= min_diff,
 * admits n insertions when   size + n <= min_size or (inserts + n)*s - samples <= max_diff,
 * with s = samples_per_insert and size = inserts - deletes. (Reverb's rate limiter: Cassirer et al.,
 * Reverb: A Framework for Experience Replay, 2021, section 3.3.) */
typedef struct gear_rate_limiter {
  double samples_per_insert; /* > 0 */
  int64_t min_size;          /* >= 1 */
  double min_diff;
  double max_diff;
} gear_rate_limiter;

/* Presets; each checks its arguments (EINVAL) and fills *limiter.
 *   min_size(m)      draws wait for m items; insertions never wait
 *   ratio(s, m, e)   s draws an insertion, within an error of e: bounds s*m - e and s*m + e */
GEAR_API int gear_rate_limiter_min_size(int64_t min_size, gear_rate_limiter *limiter);
GEAR_API int gear_rate_limiter_ratio(double samples_per_insert, int64_t min_size,
                                     double error_buffer, gear_rate_limiter *limiter);

typedef enum gear_memory {
  GEAR_MEMORY_DEFAULT = 0, /* the server's: geard posix, embedded memfd */
  GEAR_MEMORY_POSIX = 1,   /* named in /dev/shm, mode 0600 */
  GEAR_MEMORY_MEMFD = 2    /* anonymous; not limited by the size of /dev/shm */
} gear_memory;

/* How much a memory property is wanted. */
typedef enum gear_want {
  GEAR_WANT_NO = 0,
  GEAR_WANT_TRY = 1,     /* where it can be had; the server logs once what it fell back to */
  GEAR_WANT_REQUIRED = 2 /* else creation fails */
} gear_want;

/* Whose rows a writer could overwrite, if it would: its program is wrong, or it means ill. per_writer: those in its own part of
 * the table's memory alone, for no more than that is mapped into it; none: all of the table's. What is stored, and how fast,
 * is the same. Memory follows the writers that use it; it costs two system calls a block that moves. The directory is larger:
 * by (writers_max - 1) * (40 bytes and 4 a step) a block; per-episode cells take writers_max times the memory; blocks are whole
 * pages; and neither huge pages nor lock can be required. */
typedef enum gear_isolation {
  GEAR_ISOLATION_NONE = 0,
  GEAR_ISOLATION_PER_WRITER = 1
} gear_isolation;

typedef struct gear_table_options {
  uint32_t struct_size;
  uint32_t column_count; /* 1 to GEAR_COLUMNS_MAX, at least one of them per step */
  const char *name;      /* 1 to 255 bytes, unique in the server */
  const gear_column_options *columns; /* the order given is the column index of cells */

  /* What is drawn. */
  uint64_t capacity_items; /* >= 1; the remover makes room beyond */
  uint32_t item_policy;    /* gear_item_policy */
  uint32_t item_length;    /* sequence: steps an item, >= 1 */
  uint32_t item_period;    /* sequence: steps from item to item; default item_length */
  uint32_t short_episodes; /* sequence: an episode shorter than item_length gives 0 one short item,
                              1 none */
  uint32_t sampler;        /* gear_selector */
  uint32_t remover;        /* gear_selector; not top_k, recency or mixture */
  double priority_alpha;   /* prioritized: exponent; default 0.6; see GEAR_ALPHA_ZERO */
  double priority_epsilon; /* prioritized: added to every priority; default 0 */
  uint32_t max_times_sampled; /* the draw that reaches it removes the item; 0 is without limit */
  uint32_t reserved;
  gear_rate_limiter limiter; /* all zero: min_size 1 */

  /* What is stored. */
  uint64_t capacity_steps;    /* steps stored at the least; default by policy: step capacity_items,
                                 sequence capacity_items * period + length, explicit and episode
                                 capacity_items * episode_steps_max (which is then required) */
  uint64_t episode_steps_max; /* longest episode or item range; 0 is not declared */
  uint32_t lanes_max;         /* lanes open at one time; default 64. Each has about a dozen blocks, and the windows'
                                 reach, set aside beside capacity_steps: 0.5 to 1 MiB by default */
  uint32_t block_steps;       /* steps a block; default about 64 KiB worth, fewer for many lanes */
  uint32_t window_before_max; /* how far windows may reach before an item's first step; default 16;
                                 see GEAR_REACH_NONE */
  uint32_t window_after_max;  /* and beyond its last step; default 16 */

  /* Where it lives. */
  uint32_t memory;     /* gear_memory */
  uint32_t huge_pages; /* gear_want; try advises transparent huge pages, required takes hugetlb
                          pages and needs memfd */
  uint32_t populate;   /* gear_want; touch every page at creation (pages are always allocated; with
                          payload_isolation those that move later are not touched) */
  uint32_t lock;       /* gear_want; mlock in the server */
  int32_t numa_node;   /* -1: no binding; else bind, and fail where that cannot be done */
  uint32_t lease_timeout_ms; /* leased draws: how long a batch may be held; default 60 s */

  /* More of what is drawn. */
  const gear_selector_options *selectors; /* named ones, at most GEAR_SELECTORS_MAX */
  uint32_t selector_count;
  uint32_t top_k;          /* sampler top_k */
  double half_life;        /* sampler recency: insertions; >= 0.5 */
  uint64_t capacity_bytes; /* of the items' steps together, each item counted whole; the remover makes
                              room beyond; 0 is without limit. Where capacity_steps is not given, it
                              also bounds the storage, and an item larger than it is not made */
  uint32_t new_priority;   /* gear_new_priority */
  uint32_t table_weights;  /* 1: keeps what GEAR_NORMALISE_TABLE needs; an index of 24 bytes an item */
  uint32_t versions;       /* 1: items carry the version of gear_writer_set_version; 8 bytes an item */
  uint32_t prompt_groups_max; /* prompt groups that may be incomplete at one time; default 0: none */
  uint32_t mode; /* who may use the table, as the nine permission bits of a file (0640); default 0600. It is owned by
                    the user and group of the creating process. Read: open, attach, sample, describe, stats. Write:
                    append (with read), update and delete items, retune, set_version, samplers of
                    GEAR_VERSION_DROP. Close, reset, drop and gear_group_drop are the owner's. Root and the
                    server's own user may do everything. Other users reach only a server that lets them in */
  uint32_t reserved_mode;
  uint32_t payload_isolation; /* gear_isolation */
  uint32_t writers_max; /* per_writer: writers of it that may be open at one time, 1 to 32; default 8. Each is one
                           gear_writer, whatever lanes it has; a closed one counts until its last steps are admitted.
                           A user's closed writers leave theirs to that user alone. The server has two descriptors
                           open for each */
} gear_table_options;
#define GEAR_TABLE_OPTIONS_INIT                                                                  \
  {sizeof(gear_table_options), 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0, {0.0, 0, 0.0, \
   0.0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, 0, NULL, 0, 0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* priority_alpha 0 means the default; this asks for alpha 0 (every nonzero priority alike). */
#define GEAR_ALPHA_ZERO (-1.0)

/* window_before_max or window_after_max 0 means the default; this asks for no reach: windows stay within the item on that
 * side, and fewer blocks are kept. */
#define GEAR_REACH_NONE UINT32_MAX

/* Sets sampler, remover, limiter and max_times_sampled of *options to a bounded FIFO queue: every item
 * is drawn once, in order; at most `capacity` items wait in the table. The next steps wait in memory that their writers
 * were granted before, some hundred small ones a writer, then append blocks; who flushes after each append is held back
 * at once. EINVAL. */
GEAR_API int gear_table_options_queue(uint64_t capacity, gear_table_options *options);

/* The same, newest first: a bounded stack. EINVAL. */
GEAR_API int gear_table_options_stack(uint64_t capacity, gear_table_options *options);

/* Creates a table and opens it. Its memory is allocated before the call returns: shortage is ENOSPC
 * here and never a fault later. Blocks while memory is allocated (bound: request_timeout_ns).
 * Errors: EINVAL, ESTRUCT, ENAME, EDUPLICATE, ESIZE, EEXISTS, ENOSPC, ENOMEM, EMFILE, ELIMIT, EMEMLOCK,
 * EUNSUPPORTED; EDISCONNECTED when the server went away meanwhile: the table may exist then, open it. */
GEAR_API int gear_table_create(gear_client *client, const gear_table_options *options,
                               gear_table **table);

/* Opens a table of this server by name. Errors: ENOTFOUND, ENAME, EPERM, EVERSION, EMFILE. */
GEAR_API int gear_table_open(gear_client *client, const char *name, gear_table **table);

/* A handle: 64 printable bytes (A-Z a-z 0-9 - _), and a NUL here, with which another process attaches
 * to the table. It contains a secret, which alone opens nothing to another user: the table's mode decides too. */
#define GEAR_HANDLE_BYTES 64
GEAR_API int gear_table_handle(gear_table *table, char handle[GEAR_HANDLE_BYTES + 1]);

/* Opens the table named by a handle. Errors: EHANDLE, ENOTFOUND, EPERM, EVERSION, EMFILE. */
GEAR_API int gear_table_attach(gear_client *client, const char *handle, gear_table **table);

/* Gives the table handle back; the table itself stays. Its writers and samplers must be closed. Errors: ESTATE when they
 * are not; EINVAL, EBUSY as gear_close. */
GEAR_API int gear_table_detach(gear_table *table);

/* Closes the table for everyone: waiting and later appends and draws answer ECLOSED. Its items can
 * still be described; its memory goes with drop. Errors: EPERM (the owner's). */
GEAR_API int gear_table_close(gear_table *table);

/* Empties the table; every key and lease from before is stale, open episodes are discarded, the
 * limiter starts anew. Errors: EPERM (the owner's). */
GEAR_API int gear_table_reset(gear_table *table);

/* Changes the rate limiter of a table in use; its counts go on. Who waits is looked at again at once.
 * Errors: EINVAL; EPERM; ESTATE when the new limits count draws while direct samplers, which are not
 * counted, are open. */
GEAR_API int gear_table_retune(gear_table *table, const gear_rate_limiter *limiter);

/* The version that items are measured against by gear_sampler_options.version_lag: that of the policy now
 * in training. Never goes down. Errors: EPERM; ESTATE when the table was not created with versions. */
GEAR_API int gear_table_set_version(gear_table *table, uint64_t version);

/* Removes the table by name. Waiters, and later calls of those who have it open, answer EDROPPED; memory
 * returns to the system when the last of them detaches. Errors: ENOTFOUND, ENAME, EPERM (the owner's). */
GEAR_API int gear_table_drop(gear_client *client, const char *name);

/* ------------------------------------------------------------------ 4. writer */

typedef struct gear_writer gear_writer;

typedef struct gear_writer_options {
  uint32_t struct_size;
  uint32_t lanes; /* streams of steps, one per environment; default 1. The writer numbers them from 0 */
  const uint64_t *lane_names; /* [lanes], or NULL: names that outlive the writer. A name is open once in a
                                 table. That of a writer that closed or died is free at once */
  uint32_t take_over; /* 1: a lane name that is open elsewhere is taken over: its open episode ends as
                         truncated at the last admitted step, and what its former writer appends to it
                         from then on is refused with ESTALE; the former writer's other lanes go on.
                         0: ELIMIT */
  uint32_t autoreset; /* gear_autoreset; what gear_writer_append_vector makes of ends */
} gear_writer_options;
#define GEAR_WRITER_OPTIONS_INIT {sizeof(gear_writer_options), 0, NULL, 0, 0}

/* The styles in which vector environments begin the next episode (gymnasium.vector.AutoresetMode). In each, with
 * `observation` what was shown before the actions were chosen, and `next, reward, terminated, truncated, info` what
 * the environments' step gave, a call is made of
 *
 *     cells         observation, action, reward: of the step just taken
 *     final_cells   of the lanes that ended, what was shown after their last step
 *
 *                  final_cells are rows of      the next call's observation is
 *     disabled     next                         next, and for lanes that ended what resetting them gave
 *     next_step    next                         next; the environments ignore the action for a lane that ended, and show
 *                                               the first observation of its next episode after it
 *     same_step    info["final_obs"]            next, which for lanes that ended is the next episode's first already
 */
typedef enum gear_autoreset {
  GEAR_AUTORESET_DISABLED = 0, /* the caller resets; every call carries a step of every lane that is not skipped */
  GEAR_AUTORESET_NEXT_STEP = 1, /* the call after an end carries no step for lanes that ended: neither their cells nor
                                   their marks are looked at. A lane that is skipped then waits for the next call */
  GEAR_AUTORESET_SAME_STEP = 2  /* as disabled; the environments reset themselves */
} gear_autoreset;

/* One column's value for one step, or for n steps (append_many: shape as of one step, the data of step
 * i at data + i * step_stride). dtype, rank and shape must be the column's. */
typedef struct gear_cell {
  uint32_t column; /* index in the table */
  uint16_t dtype;  /* gear_dtype */
  uint16_t rank;
  uint32_t element_bytes; /* GEAR_BYTES only */
  uint32_t reserved;
  const void *data;
  const int64_t *shape;   /* rank extents; may be NULL when rank is 0 */
  const int64_t *strides; /* bytes, rank entries; NULL: C-contiguous */
  int64_t step_stride;    /* append_many: bytes from step to step; 0: contiguous */
} gear_cell;

typedef enum gear_end {
  GEAR_TERMINATED = 1, /* the environment ended: no value beyond */
  GEAR_TRUNCATED = 2   /* cut off: the value beyond is the final observation's */
} gear_end;

/* Opens a writer with lanes of its own. options may be NULL.
 * Errors: EINVAL, ELIMIT (lanes_max, writers_max, a name that is open elsewhere), EDUPLICATE (a name given twice), EPERM, ECLOSED, EDROPPED,
 * EMFILE, ENOMEM. Every call for a lane that was taken over answers ESTALE. */
GEAR_API int gear_writer_open(gear_table *table, const gear_writer_options *options,
                              gear_writer **writer);

/* Appends one step to a lane: exactly one cell for every per-step column, in any order; those of optional columns
 * may be left out (by append_many: of all its steps). Returns when the
 * step is in shared memory and its order is fixed. Blocks, up to timeout_ns, only for want of space
 * (limiter, or blocks); so a writer is some steps ahead of what the limiter admitted, and flush waits for that.
 * Cells are checked in full before anything is stored.
 * Errors: ECOUNT, ENOCOLUMN, EDUPLICATE, EDTYPE, ESHAPE, ELANE, ESTATE (a reserve is open on this lane, or
 * the episode has its episode_steps_max),
 * ETIMEDOUT, ENOSPC, ECLOSED, EDROPPED, EDISCONNECTED. */
GEAR_API int gear_writer_append(gear_writer *writer, uint32_t lane, const gear_cell *cells,
                                size_t cell_count, int64_t timeout_ns);

/* Appends step_count steps of one lane in one call, the fast way for token sequences. On GEAR_OK
 * *accepted is step_count. On ETIMEDOUT, ENOSPC, ECLOSED and EDROPPED *accepted (written here also on
 * failure) tells how many leading steps were stored. Otherwise as gear_writer_append. */
GEAR_API int gear_writer_append_many(gear_writer *writer, uint32_t lane, const gear_cell *cells,
                                     size_t cell_count, size_t step_count, int64_t timeout_ns,
                                     size_t *accepted);

/* One step of every lane of a writer, as a vector environment gives it. Arrays begin with the axis of the
 * lanes: cells are [lanes, cell shape...], rank and shape as of one lane's cell; lane i is at
 * data + i * step_stride. */
typedef struct gear_vector_step {
  uint32_t struct_size;
  uint32_t cell_count;
  const gear_cell *cells;     /* of the step: exactly one for every per-step column */
  const uint8_t *terminated;  /* [lanes]: nonzero where this step ended the episode; NULL: nowhere */
  const uint8_t *truncated;   /* [lanes]; a lane both terminated and truncated is terminated */
  const uint8_t *skip;        /* [lanes]: nonzero where the lane takes no part; NULL: nowhere */
  const gear_cell *final_cells; /* final observations, for any subset of the columns; read for lanes
                                   that end */
  uint32_t final_cell_count;
  uint32_t reserved;
} gear_vector_step;
#define GEAR_VECTOR_STEP_INIT {sizeof(gear_vector_step), 0, NULL, NULL, NULL, NULL, NULL, 0, 0}

/* Appends one step to every lane of the writer in one call and ends the episodes that are marked. With
 * autoreset next_step a lane that ended in the call before takes no part in this one. The three styles of
 * autoreset give the same stored episodes. Cells, and the state of every lane that takes part, are checked in full
 * before anything is stored.
 * On ETIMEDOUT, ENOSPC, ECLOSED, EDROPPED and ESTALE *accepted (may be NULL; written here also on failure) is how many
 * leading lanes were dealt with: call again with `skip` set for those. Otherwise as gear_writer_append; ESTALE also when
 * a lane that takes part was taken over: skip it from then on. */
GEAR_API int gear_writer_append_vector(gear_writer *writer, const gear_vector_step *step,
                                       int64_t timeout_ns, uint32_t *accepted);

/* Append without a copy: reserve gives, for every column of the table in order, where the next step's
 * cell is to be written (C-contiguous; NULL for per-episode columns); advance appends what was written.
 * cells has column_count entries. A second reserve on the lane gives the same places again. Such a step has every
 * column, optional ones too. */
GEAR_API int gear_writer_reserve(gear_writer *writer, uint32_t lane, int64_t timeout_ns,
                                 void **cells, size_t cell_count);
GEAR_API int gear_writer_advance(gear_writer *writer, uint32_t lane, int64_t timeout_ns);

/* Gives the per-episode columns of the lane's current episode (or, before its first step, of the
 * coming one): exactly one cell for each, once an episode. Items show them from then on; before, their
 * mask is false. Errors: as append; ESTATE when given already. */
GEAR_API int gear_writer_episode_cells(gear_writer *writer, uint32_t lane, const gear_cell *cells,
                                       size_t cell_count, int64_t timeout_ns);

/* Ends the lane's episode; the next append begins another. cells, which may be none, are the final
 * observation: what the environment showed after the last step, for any subset of the per-step columns.
 * A window of offset +1 at the last step shows them. ESTATE when the episode has no step. */
GEAR_API int gear_writer_end_episode(gear_writer *writer, uint32_t lane, gear_end end,
                                     const gear_cell *cells, size_t cell_count,
                                     int64_t timeout_ns);

/* Policy explicit: makes an item of the last `length` steps of the lane's current episode.
 * Errors: EPRIORITY, EINVAL (length 0, over the episode so far, or over episode_steps_max), ESTATE (other
 * policy), ETIMEDOUT, ECLOSED, EDROPPED. */
GEAR_API int gear_writer_item(gear_writer *writer, uint32_t lane, uint32_t length, double priority,
                              int64_t timeout_ns);

/* Sets the priority of the items that the lane's coming steps make, until changed. A NULL priority
 * returns to the default: the largest raw priority the table has seen, 1 when none. */
GEAR_API int gear_writer_set_priority(gear_writer *writer, uint32_t lane, const double *priority,
                                      int64_t timeout_ns);

/* Tables with versions: the version that the items made by the lane's coming steps carry, until changed. */
GEAR_API int gear_writer_set_version(gear_writer *writer, uint32_t lane, uint64_t version,
                                     int64_t timeout_ns);

/* Tables with prompt_groups_max: the items that the lane makes from now on are members of a prompt group of
 * `size` items, from any lanes and writers; size 0 ends membership. Members are hidden until the group has
 * all of them; then all become drawable at one moment. An incomplete group waits for members from any
 * lane, also after a writer of it has gone, until it stands in the way: of steps that need its blocks, or
 * of more than prompt_groups_max others. Then the one begun first is dropped whole, and counted. An item
 * whose size is not that of the group's first member is rejected, and counted.
 * Errors: EINVAL (size over capacity_items), ESTATE (a table without prompt groups). */
GEAR_API int gear_writer_set_prompt_group(gear_writer *writer, uint32_t lane, uint64_t group,
                                          uint32_t size, int64_t timeout_ns);

/* Returns when every accepted step is admitted: drawable, and safe from any process's death. On ETIMEDOUT
 * *waiting (may be NULL; written here also on failure) is how many steps are not admitted yet. ESTALE, once, when a lane
 * was taken over and *waiting steps that were accepted for it were refused; all others are admitted. */
GEAR_API int gear_writer_flush(gear_writer *writer, int64_t timeout_ns, uint64_t *waiting);

/* Ends open episodes as truncated and gives the lanes back; steps that are accepted are still admitted, but
 * for lanes that were taken over (flush first to hear of those). While the server is away it does not wait for it:
 * EDISCONNECTED tells of steps that are admitted once it is back. Any thread, as gear_close. Errors: EBUSY too. */
GEAR_API int gear_writer_close(gear_writer *writer);

/* ------------------------------------------------------------------ 5. sampler */

typedef struct gear_sampler gear_sampler;
typedef struct gear_batch gear_batch;

typedef enum gear_pad {
  GEAR_PAD_NONE = 0, /* steps that exist keep their places in the window */
  GEAR_PAD_LEFT = 1, /* steps that exist end at the window's end, padding before them */
  GEAR_PAD_RIGHT = 2 /* steps that exist begin at the window's begin, padding after them */
} gear_pad;

typedef enum gear_fill {
  GEAR_FILL_ZERO = 0,
  GEAR_FILL_EDGE = 1 /* the nearest step that exists is repeated; for a step without the cell of an optional
                        column, and for padding beside it, the last cell before it in the window, or the
                        first after it where none is before */
} gear_fill;

/* What a batch receives of one column: steps t+offset .. t+offset+length-1 around the drawn step t, cut
 * at the ends of the episode. Steps that lie outside are padding and false in the mask. */
typedef struct gear_window {
  uint32_t struct_size;
  uint32_t pad;       /* gear_pad */
  const char *column;
  const char *name;   /* in the batch; default the column's; unique in the sampler */
  int32_t offset;
  uint32_t length;    /* 0: the item's own steps, cut at the item's end; the tensor then has as many
                         steps as the longest item the table allows. Per-episode columns: 1 */
  uint32_t fill;      /* gear_fill */
  uint32_t reserved;
  uint32_t compute;   /* gear_compute */
  uint32_t steps;     /* n-step: n, >= 1 */
  double discount;    /* n-step: g, 0 to 1; there is no default */
  uint32_t burn_in;   /* of the window's steps, how many leading ones are only there to warm up recurrent
                         state: see gear_tensor.loss_mask */
  uint32_t reserved_burn_in;
} gear_window;
#define GEAR_WINDOW_INIT {sizeof(gear_window), 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0.0, 0, 0}

/* Windows that show no stored cell but what follows from the steps. column is NULL, and name required,
 * but for the n-step return, whose column is that of the rewards (f32 or f64, rank 0; a step without an optional
 * reward adds nothing). offset, length, pad, fill and burn_in are as of any window; each value is that of the step at
 * its place. The final observation is no step: padding here. n-step windows reach n steps further, to the step whose
 * value is bootstrapped, and window_after_max must cover these. Of an episode still open, the steps summed
 * are those committed; all windows of a row agree about which these are. Sums are made in double, in the order of the
 * steps. */
typedef enum gear_compute {
  GEAR_COMPUTE_NONE = 0,
  GEAR_COMPUTE_STEP = 1,       /* u32: number of the step in its episode, from 0 */
  GEAR_COMPUTE_IS_FIRST = 2,   /* bool: step 0 of its episode */
  GEAR_COMPUTE_IS_LAST = 3,    /* bool: the episode ended after this step, either way */
  GEAR_COMPUTE_TERMINATED = 4, /* bool */
  GEAR_COMPUTE_TRUNCATED = 5,  /* bool */
  GEAR_COMPUTE_NSTEP_RETURN = 6, /* dtype of the column: sum over k < n of g^k r(t+k), stopped at the
                                    episode's end (Sutton and Barto, 2018, section 7.1) */
  GEAR_COMPUTE_NSTEP_STEPS = 7, /* u32: how many rewards were summed, m */
  GEAR_COMPUTE_NSTEP_BOOTSTRAP = 8 /* f32: factor of the value beyond: 0 after terminated, else g^m */
} gear_compute;

typedef enum gear_sample_mode {
  GEAR_SAMPLE_AUTO = 0,   /* direct where the table allows it */
  GEAR_SAMPLE_DIRECT = 1, /* this process draws from the shared index; needs a limiter of min_size
                             only and no max_times_sampled */
  GEAR_SAMPLE_LEASED = 2  /* the server draws, counts and pins */
} gear_sample_mode;

/* Which step of the item is the drawn step t. */
typedef enum gear_anchor {
  GEAR_ANCHOR_AUTO = 0,   /* episode items with a fixed window length: random_start; else first */
  GEAR_ANCHOR_FIRST = 1,
  GEAR_ANCHOR_RANDOM_START = 2, /* uniform over [0, max(T-K, 0)], K the longest fixed window, T the item's
                                   length */
  GEAR_ANCHOR_RANDOM_STEP = 3,  /* uniform over [0, T) */
  GEAR_ANCHOR_EVERY_STEP = 4    /* epoch order only: every step of every item is drawn, once an epoch */
} gear_anchor;

/* The order of draws. */
typedef enum gear_order {
  GEAR_ORDER_SELECTOR = 0, /* the selector's */
  GEAR_ORDER_EPOCH = 1     /* without replacement over a table that does not change: each item (or step,
                              see GEAR_ANCHOR_EVERY_STEP) once an epoch, in a random order that follows from
                              seed and epoch, split among the ranks. Direct mode */
} gear_order;

typedef enum gear_normalise {
  GEAR_NORMALISE_BATCH = 0, /* weights divided by the batch's largest */
  GEAR_NORMALISE_NONE = 1,
  GEAR_NORMALISE_TABLE = 2  /* divided by the largest in the table; prioritized: a table with table_weights */
} gear_normalise;

/* What becomes of drawn items whose version is below the table's less version_lag. */
typedef enum gear_version_policy {
  GEAR_VERSION_ANY = 0,  /* nothing: every version is drawn */
  GEAR_VERSION_SKIP = 1, /* not drawn; a group counts them as skipped and does not come back to them. Direct by
                            uniform, prioritized and recency; leased draws get past 256 old items at most, so drop
                            suits tables in order of insertion better. Rows drawn ahead (prefetch) may be older */
  GEAR_VERSION_DROP = 2  /* removed from the table; leased mode */
} gear_version_policy;

typedef struct gear_sampler_options {
  uint32_t struct_size;
  uint32_t mode;            /* gear_sample_mode */
  uint32_t batch_rows_max;  /* largest n of gear_sample; default 256 */
  uint32_t batches_max;     /* batches held at one time; default 4. Leased: batches_max * batch_rows_max + prefetch
                               is at most 65536; direct: batches_max * batch_rows_max at most 1048576 */
  const gear_window *windows; /* none: every column, offset 0, length 1 for step items, else 0 */
  uint32_t window_count;
  uint32_t anchor;          /* gear_anchor */
  uint64_t seed;            /* 0: from the system. The same seed over an unchanged table gives the same
                               draws, on any machine */
  uint32_t prefetch;        /* leased: items drawn ahead; default 0 */
  uint32_t rows_min;        /* a batch of fewer rows is handed out once the timeout ends and at least
                               rows_min are there; default: all that were asked */
  double beta;              /* weights are (N * P(i))^-beta; default 0: all 1 */
  uint32_t normalise;       /* gear_normalise */
  uint32_t reserved;
  const char *selector;     /* name of one of the table's selectors; default the table's sampler */
  const char *group;        /* consumer group, 1 to 63 bytes: its samplers together see every item once, in order of
                               insertion (items there before the table's first group: only where it has a
                               fifo or lifo index); release acknowledges. Made by the first who names it. First
                               deliveries count for the limiter, of each group. Leased mode */
  uint32_t group_from;      /* a new group begins 0 with the oldest item, 1 with the next inserted */
  uint32_t unique;          /* 1: no item twice in a batch; when the table has fewer than asked, all it has. Each item is
                               drawn from those not yet in the batch; its probability is told as if it were the first.
                               Direct for uniform, prioritized and recency; leased needs prefetch 0 */
  uint32_t order;           /* gear_order */
  uint32_t rank;            /* epoch order: this reader's share is rank of world */
  uint32_t world;           /* default 1; above 1 all ranks give one seed, not 0 */
  uint32_t version_policy;  /* gear_version_policy */
  uint64_t version_lag;     /* k */
  uint32_t background;      /* batches that a thread of this client fills ahead, from open on; at most 1024,
                               default 0: no thread. Direct mode; leased draws come ahead by prefetch. Such a
                               gear_sample takes the oldest one ready (with its priorities and
                               probabilities of when it was drawn), or waits for it up to its timeout: by a lock,
                               not by convention 7. What the thread met with is that call's error. After a
                               reset, or, with a version_policy, a new version of the table, none from before
                               it is handed out. They come on top of batches_max. A
                               forked child has no such thread, as it has no sampler */
  uint32_t background_rows; /* of these batches, at most batch_rows_max, which is the default; gear_sample of
                               another number is EINVAL */
} gear_sampler_options;
#define GEAR_SAMPLER_OPTIONS_INIT                                                            \
  {sizeof(gear_sampler_options), 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0.0, 0, 0, NULL, NULL, 0, 0, \
   0, 0, 0, 0, 0, 0, 0}

/* options may be NULL. Errors: EINVAL, ENOCOLUMN, EDUPLICATE, EWINDOW, ENOTFOUND (the table has no selector of that
 * name), EUNSUPPORTED (direct asked where the table does not allow it, or unique with a selector that draws in order;
 * normalise table without table_weights), EPERM, ELIMIT, EMFILE, ENOMEM, ECLOSED, EDROPPED. */
GEAR_API int gear_sampler_open(gear_table *table, const gear_sampler_options *options,
                               gear_sampler **sampler);

/* Draws `rows` items with replacement (leased FIFO with max_times_sampled 1: in order, each once) and
 * gathers their windows. Blocks until the limiter admits them, up to timeout_ns; then ETIMEDOUT with no effect.
 * Errors: EINVAL (rows 0 or over batch_rows_max), EBUSY, ETIMEDOUT, ECLOSED, EDROPPED, EDISCONNECTED. */
GEAR_API int gear_sample(gear_sampler *sampler, uint32_t rows, int64_t timeout_ns,
                         gear_batch **batch);

/* Where gear_sample_into puts one window. */
typedef struct gear_destination {
  uint32_t struct_size;
  uint32_t reserved;
  void *data;          /* [rows, length, cell shape...]; each step's cell is contiguous. NULL: the batch's own
                          memory, as gear_sample */
  int64_t row_stride;  /* bytes; 0: length * step_stride */
  int64_t step_stride; /* bytes; 0: one cell. Either axis may be the outer one. Steps that follow one another
                          are gathered straight to their place, others are copied once more */
} gear_destination;
#define GEAR_DESTINATION_INIT {sizeof(gear_destination), 0, NULL, 0, 0}

/* gear_sample into the caller's memory: one destination for each window, in their order. The batch carries
 * keys, masks and the rest; its tensors point to the caller's memory, which must stay until it is released.
 * On failure the destinations may hold parts of rows. Blocking and thread rule as gear_sample. Errors: as
 * gear_sample; EINVAL (strides that are negative, or with which cells of the `rows` rows overlap); ECOUNT (not one
 * destination a window); ESTRUCT. */
GEAR_API int gear_sample_into(gear_sampler *sampler, uint32_t rows, int64_t timeout_ns,
                              const gear_destination *destinations, size_t count,
                              gear_batch **batch);

/* Epoch order: begins epoch `epoch` (any number; the same one gives the same order again). *rows (may be NULL) is
 * how many rows this rank's share has; the last batch may be shorter, and gear_sample then answers EEPOCH. Without a
 * call, the first gear_sample begins epoch 0. Ranks that give the same seed and epoch have each row once among them. A
 * row's probability is 1 by the epoch's rows of all ranks, its weight 1. O(items) where the table changed since the epoch
 * before. Does not block.
 * Errors: ESTATE (another order; fewer items than the limiter's min_size; items that come or go now). gear_sample: ESTATE
 * when items came or went since the epoch began. */
GEAR_API int gear_sampler_begin_epoch(gear_sampler *sampler, uint64_t epoch, uint64_t *rows);

typedef struct gear_sampler_stats {
  uint32_t struct_size;
  uint32_t direct;  /* 1 when this sampler draws by itself */
  uint64_t batches;
  uint64_t rows;
  uint64_t redrawn; /* rows that moved while they were copied, and were drawn again */
  uint64_t bytes;   /* copied into batches */
} gear_sampler_stats;
#define GEAR_SAMPLER_STATS_INIT {sizeof(gear_sampler_stats), 0, 0, 0, 0, 0}
GEAR_API int gear_sampler_get_stats(const gear_sampler *sampler, gear_sampler_stats *stats);

/* Items drawn ahead but not used return to the table, uncounted. Batches still held stay valid. Any thread, as gear_close.
 * Errors: EBUSY. */
GEAR_API int gear_sampler_close(gear_sampler *sampler);

/* ------------------------------------------------------------------ 6. batch */

/* One window of a batch, in a form that DLPack and the buffer protocol take as it is. Shape is
 * [rows, length, cell shape...]; the length axis is absent when the window's length is 1. */
typedef struct gear_tensor {
  void *data;             /* aligned to 64 bytes, but in the caller's memory */
  const char *name;
  const int64_t *shape;   /* rank entries */
  const int64_t *strides; /* bytes, rank entries */
  uint32_t rank;
  uint32_t dtype;         /* gear_dtype */
  uint32_t element_bytes;
  uint32_t device;        /* 0: host memory */
  uint64_t size_bytes;
  const uint8_t *mask;    /* [rows, length]: 1 where a step exists and has the cell, 0 where not */
  const uint32_t *lengths; /* [rows]: how many steps exist in the window, also those that lack the cell of an
                              optional column */
  uint32_t length;        /* steps a row */
  uint32_t burn_in;       /* of them, see gear_window */
  const uint8_t *loss_mask; /* [rows, length]: mask with the burn-in steps 0; NULL when burn_in is 0 */
} gear_tensor;

/* Everything of a batch agrees by row index; rows are in the order drawn. A batch stays valid and
 * unchanged until it is released, whatever writers and the server do, and after its sampler and client are
 * closed. Accessors of a released batch answer ESTALE (or 0, NULL), never another batch's content. */
GEAR_API uint32_t gear_batch_rows(const gear_batch *batch);
GEAR_API uint32_t gear_batch_tensor_count(const gear_batch *batch);
GEAR_API int gear_batch_tensor(const gear_batch *batch, uint32_t index, gear_tensor *tensor);

/* [rows] each. key: names the item, for priority updates and deletion. priority: raw, at the draw.
 * probability: of this draw under the selector (1 for fifo). weight: see beta. times_sampled: including this
 * draw; 0 in direct mode, which does not count. item_length: steps of the item. anchor: which of them
 * is the drawn step t. */
GEAR_API const uint64_t *gear_batch_keys(const gear_batch *batch);
GEAR_API const double *gear_batch_priorities(const gear_batch *batch);
GEAR_API const double *gear_batch_probabilities(const gear_batch *batch);
GEAR_API const float *gear_batch_weights(const gear_batch *batch);
GEAR_API const uint32_t *gear_batch_times_sampled(const gear_batch *batch);
GEAR_API const uint32_t *gear_batch_item_lengths(const gear_batch *batch);
GEAR_API const uint32_t *gear_batch_anchors(const gear_batch *batch);

/* [rows] each; NULL where the sampler has no group, or the table no versions. redelivered: 1 when a consumer
 * of the group had this item before and did not acknowledge it. version: that of the item. */
GEAR_API const uint8_t *gear_batch_redelivered(const gear_batch *batch);
GEAR_API const uint64_t *gear_batch_versions(const gear_batch *batch);

/* Consumer groups: ends the batch without an acknowledgement; its items are delivered again, at once.
 * Errors: ESTALE; ESTATE when the sampler has no group. */
GEAR_API int gear_batch_reject(gear_batch *batch);

/* Ends the batch. ESTALE when it was released before; also when a lease of it had expired (the rows read were right
 * all the same), and of a group's batch in a forked child. Consumer groups: OK acknowledges for good. After ESTALE the
 * items are delivered again, unless this thread was held up between its last look at the clock and its release. */
GEAR_API int gear_batch_release(gear_batch *batch);

/* ------------------------------------------------------------------ 7. items */

typedef struct gear_items_result {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t updated;  /* or deleted */
  uint64_t stale;    /* the item has gone; a newer one in its place is untouched */
  uint64_t unknown;  /* never a key of this table */
  uint64_t rejected; /* priority NaN, infinite or negative; the others proceeded */
} gear_items_result;
#define GEAR_ITEMS_RESULT_INIT {sizeof(gear_items_result), 0, 0, 0, 0, 0}

/* Sets raw priorities of items; a key given twice takes the last. Returns when the table's index has them.
 * result may be NULL. ETIMEDOUT, EDISCONNECTED, ECLOSED: a part may have been applied, or will be. Where the server dies
 * and comes back during the call, all is asked again, and the counts are those of the second time (an item that the
 * first time deleted is then stale). Any thread; one call at a time a table handle,
 * others wait their turn. */
GEAR_API int gear_update_priorities(gear_table *table, const uint64_t *keys,
                                    const double *priorities, size_t count, int64_t timeout_ns,
                                    gear_items_result *result);
GEAR_API int gear_delete_items(gear_table *table, const uint64_t *keys, size_t count,
                               int64_t timeout_ns, gear_items_result *result);

/* Priority of a sequence from the errors of its steps: eta * max|d| + (1 - eta) * mean|d|.
 * (Kapturowski et al., Recurrent Experience Replay in Distributed RL, ICLR 2019, section 2.3.)
 * errors [rows, length], row i of which has lengths[i] valid leading steps (NULL: all); priorities [rows]. A row
 * without steps gets 0, one with an error that is NaN gets NaN. EINVAL when eta is outside 0 to 1, or a length is over
 * `length`. Does not block; any thread; O(rows * length). */
GEAR_API int gear_sequence_priorities(const float *errors, size_t rows, size_t length,
                                      const uint32_t *lengths, double eta, double *priorities);

/* ------------------------------------------------------------------ 8. introspection */

typedef struct gear_column_info {
  uint32_t struct_size;
  uint32_t dtype;
  const char *name;
  uint32_t rank;
  uint32_t element_bytes;
  uint32_t flags;
  uint32_t reserved;
  int64_t shape[GEAR_RANK_MAX];
  uint64_t cell_bytes;
} gear_column_info;
#define GEAR_COLUMN_INFO_INIT \
  {sizeof(gear_column_info), 0, NULL, 0, 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, 0}

typedef struct gear_table_info {
  uint32_t struct_size;
  uint32_t column_count;
  const char *name;
  uint64_t table_id;
  uint64_t capacity_items;
  uint64_t capacity_steps;
  uint64_t episode_steps_max;
  uint32_t item_policy;
  uint32_t item_length;
  uint32_t item_period;
  uint32_t short_episodes;
  uint32_t sampler;
  uint32_t remover;
  double priority_alpha;
  double priority_epsilon;
  uint32_t max_times_sampled;
  uint32_t lanes_max;
  gear_rate_limiter limiter;
  uint32_t window_before_max;
  uint32_t window_after_max;
  uint32_t block_steps;
  uint32_t block_count;
  uint64_t block_bytes;
  uint64_t directory_bytes; /* shared memory: index, items, counters */
  uint64_t data_bytes;      /* shared memory: steps */
  uint32_t memory;          /* gear_memory */
  uint32_t direct;          /* 1 when direct sampling is allowed */
  uint64_t capacity_bytes;
  double half_life;
  uint32_t top_k;
  uint32_t selector_count;  /* named ones */
  uint32_t new_priority;    /* gear_new_priority */
  uint32_t table_weights;
  uint32_t versions;
  uint32_t prompt_groups_max;
  uint32_t owner_uid;
  uint32_t owner_gid;
  uint32_t mode; /* permission bits, as of gear_table_options */
  uint32_t reserved_mode;
  uint32_t payload_isolation; /* gear_isolation */
  uint32_t writers_max;       /* 0 without it */
} gear_table_info;
#define GEAR_TABLE_INFO_INIT                                                                       \
  {sizeof(gear_table_info), 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0, {0.0, 0, 0.0,   \
   0.0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

typedef struct gear_table_stats {
  uint32_t struct_size;
  uint32_t state;    /* 1 open, 2 closed, 3 dropped */
  uint64_t items;    /* in the table now */
  uint64_t inserts;  /* since creation or reset, as are all counts below */
  uint64_t samples;  /* leased draws handed out; direct draws are not counted */
  uint64_t deletes;  /* evicted, deleted, or drawn max_times_sampled times */
  uint64_t steps;    /* admitted */
  uint64_t episodes; /* ended */
  uint64_t evictions; /* removed to make room */
  uint64_t blocks_free;
  uint64_t lanes_open;
  double priority_max; /* largest raw priority seen */
  uint64_t bytes;      /* of the steps of the items in the table, each item counted whole */
  uint64_t version;    /* see gear_table_set_version */
  uint64_t items_hidden; /* members of incomplete prompt groups; not in `items` */
  uint64_t prompt_groups_dropped; /* incomplete ones */
  uint64_t items_rejected; /* asked for and not made, because they broke a rule of the table */
} gear_table_stats;
#define GEAR_TABLE_STATS_INIT \
  {sizeof(gear_table_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0, 0, 0, 0}

typedef struct gear_group_stats {
  uint32_t struct_size;
  uint32_t consumers;    /* samplers of the group that are open */
  uint64_t lag;          /* items in the table that the group has still to see */
  uint64_t in_flight;    /* drawn, not acknowledged */
  uint64_t delivered;    /* draws handed out, redeliveries among them */
  uint64_t acknowledged;
  uint64_t redelivered;
  uint64_t missed;       /* removed from the table before the group saw them */
  uint64_t skipped;      /* too old, see gear_version_policy */
} gear_group_stats;
#define GEAR_GROUP_STATS_INIT {sizeof(gear_group_stats), 0, 0, 0, 0, 0, 0, 0, 0}

/* Read from shared memory: no round trip, any thread. Strings live as long as the table handle. */
GEAR_API int gear_table_describe(const gear_table *table, gear_table_info *info);
GEAR_API int gear_table_column(const gear_table *table, uint32_t index, gear_column_info *column);
GEAR_API int gear_table_column_index(const gear_table *table, const char *name, uint32_t *index);
GEAR_API int gear_table_get_stats(const gear_table *table, gear_table_stats *stats);

/* Checks the rules that the table's shared memory keeps, as this process maps it, while server and others work: calls
 * finding(text, user) for each broken one, the values in the text, and the first 20 at most; none is called for a sound
 * table. Reads every item and block once, changes nothing. Any thread; no round trip. Errors: EINVAL. */
GEAR_API int gear_table_check(const gear_table *table, void (*finding)(const char *text, void *user), void *user);

/* Consumer groups of a table. One round trip each. list: in order of creation, name(i, user) for each. drop: its
 * samplers answer EDROPPED; what they hold stays readable. Errors: ENOTFOUND, ENAME, EPERM (the owner's). */
GEAR_API int gear_group_get_stats(gear_table *table, const char *group, gear_group_stats *stats);
GEAR_API int gear_group_list(gear_table *table, void (*name)(const char *name, void *user), void *user);
GEAR_API int gear_group_drop(gear_table *table, const char *group);

/* Names of the server's tables, in order of creation: name(i, user) is called for each. */
GEAR_API int gear_table_list(gear_client *client, void (*name)(const char *name, void *user),
                             void *user);

typedef struct gear_server_info {
  uint32_t struct_size;
  uint32_t pid;
  uint32_t version;        /* as gear_version() */
  uint32_t layout_version;
  uint64_t layout_fingerprint;
  uint64_t instance_id;
  uint64_t uptime_ns;
  uint32_t clients;
  uint32_t tables;
  uint32_t writers;
  uint32_t samplers;
  uint64_t records;        /* taken from rings since start */
  uint64_t wakeups;        /* times the conductor slept and was woken */
  char event_loop[16];     /* "io_uring" or "epoll" */
} gear_server_info;
#define GEAR_SERVER_INFO_INIT {sizeof(gear_server_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}}
GEAR_API int gear_get_server_info(gear_client *client, gear_server_info *info);

/* Receives the log of an embedded server and of the library: level 0 debug, 1 info, 2 warning, 3 error.
 * The default writes warnings and errors to standard error; NULL restores it. Called from any thread. */
GEAR_API int gear_set_log(void (*log)(int level, const char *text, void *user), void *user);

#ifdef __cplusplus
}
#endif

#endif /* GEAR_H */
