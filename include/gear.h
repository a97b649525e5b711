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
 *     to one thread at a time. A batch may be read by several threads; it is released once.
 *  5. Strings are NUL-terminated UTF-8. Strings given are copied; strings returned live as long as the
 *     handle they came from.
 *  6. Shapes are in elements, strides in bytes, sizes in bytes, times in nanoseconds.
 *  7. In steady state append, reserve/advance, direct sampling and batch release make no system call,
 *     no heap allocation and no round trip to the server.
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
  GEAR_EDISCONNECTED = -406, /* the server went away during the call */
  GEAR_EADDRINUSE = -407, /* another server serves this endpoint already */

  GEAR_ETIMEDOUT = -500, /* the time given ran out */

  GEAR_EUNSUPPORTED = -600, /* not in this build, on this kernel, or not in this version */
  GEAR_ESYSTEM = -601,   /* an unexpected error of a system call; the text carries errno */
  GEAR_EINTERNAL = -602  /* a broken invariant of GEAR itself: please report it */
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
} gear_connect_options;
#define GEAR_CONNECT_OPTIONS_INIT {sizeof(gear_connect_options), 0, NULL, 0, 0}

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

/* Closes the client and every table, writer and sampler opened through it (their handles must not be
 * used again, nor be in use by another thread). Open episodes end as truncated. Batches that are
 * still held keep their memory and are released as usual. */
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
  GEAR_SELECT_PRIORITIZED = 3 /* P(i) proportional to (p_i + epsilon)^alpha; O(log n).
                                 Schaul et al., Prioritized Experience Replay, ICLR 2016, eq. 1 */
} gear_selector;

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
  uint32_t remover;        /* gear_selector; uniform or fifo */
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
  uint32_t lanes_max;         /* lanes open at one time; default 64 */
  uint32_t block_steps;       /* steps a block; default about 64 KiB worth, fewer for many lanes */
  uint32_t window_before_max; /* how far windows may reach before an item's first step; default 16 */
  uint32_t window_after_max;  /* and beyond its last step; default 16 */

  /* Where it lives. */
  uint32_t memory;     /* gear_memory */
  uint32_t huge_pages; /* gear_want; try advises transparent huge pages, required takes hugetlb
                          pages and needs memfd */
  uint32_t populate;   /* gear_want; touch every page at creation (pages are always allocated) */
  uint32_t lock;       /* gear_want; mlock in the server */
  int32_t numa_node;   /* -1: no binding; else bind, and fail where that cannot be done */
  uint32_t lease_timeout_ms; /* leased draws: how long a batch may be held; default 60 s */
} gear_table_options;
#define GEAR_TABLE_OPTIONS_INIT                                                                  \
  {sizeof(gear_table_options), 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0, {0.0, 0, 0.0, \
   0.0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, 0}

/* priority_alpha 0 means the default; this asks for alpha 0 (every nonzero priority alike). */
#define GEAR_ALPHA_ZERO (-1.0)

/* Sets sampler, remover, limiter and max_times_sampled of *options to a bounded FIFO queue: every item
 * is drawn once, in order; at most `capacity` items wait, the next insertion blocks. EINVAL. */
GEAR_API int gear_table_options_queue(uint64_t capacity, gear_table_options *options);

/* Creates a table and opens it. Its memory is allocated before the call returns: shortage is ENOSPC
 * here and never a fault later. Blocks while memory is allocated (bound: request_timeout_ns).
 * Errors: EINVAL, ESTRUCT, ENAME, EDUPLICATE, ESIZE, EEXISTS, ENOSPC, ENOMEM, EMFILE, ELIMIT, EMEMLOCK,
 * EUNSUPPORTED. */
GEAR_API int gear_table_create(gear_client *client, const gear_table_options *options,
                               gear_table **table);

/* Opens a table of this server by name. Errors: ENOTFOUND, ENAME, EPERM, EVERSION, EMFILE. */
GEAR_API int gear_table_open(gear_client *client, const char *name, gear_table **table);

/* A handle: 64 printable bytes (A-Z a-z 0-9 - _), and a NUL here, with which another process attaches
 * to the table. It contains a secret: who holds it and may reach the server may read and write. */
#define GEAR_HANDLE_BYTES 64
GEAR_API int gear_table_handle(gear_table *table, char handle[GEAR_HANDLE_BYTES + 1]);

/* Opens the table named by a handle. Errors: EHANDLE, ENOTFOUND, EPERM, EVERSION, EMFILE. */
GEAR_API int gear_table_attach(gear_client *client, const char *handle, gear_table **table);

/* Gives the table handle back; the table itself stays. Its writers and samplers must be closed. */
GEAR_API int gear_table_detach(gear_table *table);

/* Closes the table for everyone: waiting and later appends and draws answer ECLOSED. Its items can
 * still be described; its memory goes with drop. */
GEAR_API int gear_table_close(gear_table *table);

/* Empties the table; every key and lease from before is stale, open episodes are discarded, the
 * limiter starts anew. */
GEAR_API int gear_table_reset(gear_table *table);

/* Removes the table by name. Waiters, and later calls of those who have it open, answer EDROPPED; memory
 * returns to the system when the last of them detaches. Errors: ENOTFOUND, ENAME. */
GEAR_API int gear_table_drop(gear_client *client, const char *name);

/* ------------------------------------------------------------------ 4. writer */

typedef struct gear_writer gear_writer;

typedef struct gear_writer_options {
  uint32_t struct_size;
  uint32_t lanes; /* streams of steps, one per environment; default 1. The writer numbers them from 0 */
} gear_writer_options;
#define GEAR_WRITER_OPTIONS_INIT {sizeof(gear_writer_options), 0}

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
 * Errors: EINVAL, ELIMIT (lanes_max), ECLOSED, EDROPPED, EMFILE, ENOMEM. */
GEAR_API int gear_writer_open(gear_table *table, const gear_writer_options *options,
                              gear_writer **writer);

/* Appends one step to a lane: exactly one cell for every per-step column, in any order. Returns when the
 * step is in shared memory and its order is fixed. Blocks, up to timeout_ns, only for want of space
 * (limiter, or blocks). Cells are checked in full before anything is stored.
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

/* Append without a copy: reserve gives, for every column of the table in order, where the next step's
 * cell is to be written (C-contiguous; NULL for per-episode columns); advance appends what was written.
 * cells has column_count entries. A second reserve on the lane gives the same places again. */
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

/* Returns when every accepted step is admitted: drawable, and safe from any process's death. On ETIMEDOUT
 * *waiting (may be NULL; written here also on failure) is how many steps are not admitted yet. */
GEAR_API int gear_writer_flush(gear_writer *writer, int64_t timeout_ns, uint64_t *waiting);

/* Ends open episodes as truncated and gives the lanes back; steps that are accepted are still admitted. */
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
  GEAR_FILL_EDGE = 1 /* the nearest step that exists is repeated */
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
} gear_window;
#define GEAR_WINDOW_INIT {sizeof(gear_window), 0, NULL, NULL, 0, 0, 0, 0}

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
  GEAR_ANCHOR_RANDOM_STEP = 3   /* uniform over [0, T) */
} gear_anchor;

typedef enum gear_normalise {
  GEAR_NORMALISE_BATCH = 0, /* weights divided by the batch's largest */
  GEAR_NORMALISE_NONE = 1
} gear_normalise;

typedef struct gear_sampler_options {
  uint32_t struct_size;
  uint32_t mode;            /* gear_sample_mode */
  uint32_t batch_rows_max;  /* largest n of gear_sample; default 256 */
  uint32_t batches_max;     /* batches held at one time; default 4 */
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
} gear_sampler_options;
#define GEAR_SAMPLER_OPTIONS_INIT \
  {sizeof(gear_sampler_options), 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0.0, 0, 0}

/* options may be NULL. Errors: EINVAL, ENOCOLUMN, EDUPLICATE, EWINDOW, EUNSUPPORTED (direct asked where the table does
 * not allow it), ELIMIT, EMFILE, ENOMEM, ECLOSED, EDROPPED. */
GEAR_API int gear_sampler_open(gear_table *table, const gear_sampler_options *options,
                               gear_sampler **sampler);

/* Draws `rows` items with replacement (leased FIFO with max_times_sampled 1: in order, each once) and
 * gathers their windows. Blocks until the limiter admits them, up to timeout_ns; then ETIMEDOUT with no effect.
 * Errors: EINVAL (rows 0 or over batch_rows_max), EBUSY, ETIMEDOUT, ECLOSED, EDROPPED, EDISCONNECTED. */
GEAR_API int gear_sample(gear_sampler *sampler, uint32_t rows, int64_t timeout_ns,
                         gear_batch **batch);

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

/* Items drawn ahead but not used return to the table, uncounted. Batches still held stay valid. */
GEAR_API int gear_sampler_close(gear_sampler *sampler);

/* ------------------------------------------------------------------ 6. batch */

/* One window of a batch, in a form that DLPack and the buffer protocol take as it is. Shape is
 * [rows, length, cell shape...]; the length axis is absent when the window's length is 1. */
typedef struct gear_tensor {
  void *data;             /* aligned to 64 bytes */
  const char *name;
  const int64_t *shape;   /* rank entries */
  const int64_t *strides; /* bytes, rank entries */
  uint32_t rank;
  uint32_t dtype;         /* gear_dtype */
  uint32_t element_bytes;
  uint32_t device;        /* 0: host memory */
  uint64_t size_bytes;
  const uint8_t *mask;    /* [rows, length]: 1 where a step exists, 0 where it is padding */
  const uint32_t *lengths; /* [rows]: how many steps exist in the window */
  uint32_t length;        /* steps a row */
  uint32_t reserved;
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

/* Ends the batch. ESTALE when it was released before; also when a lease of it had expired (the rows read
 * were right all the same). */
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
 * result may be NULL. ETIMEDOUT: a part may have been applied. Any thread; one call at a time a table handle,
 * others wait their turn. */
GEAR_API int gear_update_priorities(gear_table *table, const uint64_t *keys,
                                    const double *priorities, size_t count, int64_t timeout_ns,
                                    gear_items_result *result);
GEAR_API int gear_delete_items(gear_table *table, const uint64_t *keys, size_t count,
                               int64_t timeout_ns, gear_items_result *result);

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
} gear_table_info;
#define GEAR_TABLE_INFO_INIT                                                                       \
  {sizeof(gear_table_info), 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0, {0.0, 0, 0.0,   \
   0.0}, 0, 0, 0, 0, 0, 0, 0, 0, 0}

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
} gear_table_stats;
#define GEAR_TABLE_STATS_INIT {sizeof(gear_table_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0}

/* Read from shared memory: no round trip, any thread. Strings live as long as the table handle. */
GEAR_API int gear_table_describe(const gear_table *table, gear_table_info *info);
GEAR_API int gear_table_column(const gear_table *table, uint32_t index, gear_column_info *column);
GEAR_API int gear_table_column_index(const gear_table *table, const char *name, uint32_t *index);
GEAR_API int gear_table_get_stats(const gear_table *table, gear_table_stats *stats);

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
