/* A submission ring with its doorbell, both directions, and a client that is killed after any step.
 *
 * Stands for lib/shm/ring.h (SubmissionProducer, SubmissionConsumer), lib/shm/doorbell.h, Port::work and Port::drain, and
 * what the server makes of a death: liveness.h tells it (the pidfd), the port drains the ring and ends. A socket that was
 * closed is a hint only: its process may still be pushing.
 *
 * The client stores a record's two words, publishes the tail, looks whether the conductor sleeps and rings; it waits for room
 * and at the end for its last record, asleep on the wake word. The conductor copies records out, gives them their effect,
 * publishes the head, looks whether the client sleeps; it sleeps on the bell. Both have a store buffer (x86-64: in order, read
 * by its owner only), of which a system call, and a death that the kernel certifies, see the end.
 *
 * Invariants: what is taken is whole, in order, each once; who sees a head sees the effects before it; a dead client's
 * published records are all taken; nobody sleeps for ever (a deadlock is an invalid end).
 *
 * Bounds: 3 records, 2 slots, one kill.
 *
 * Mutants: 1 the tail is published before the record's second word, 2 the head before the effects, 3 no fence of the client before
 * its look, 4 none of the conductor before its second look, 5 the conductor does not look again, 6 the client does not look for
 * room, 7 a closed socket counts as death, 8 no drain after death, 9 the client sleeps without a fence before its look,
 * 10 nobody is told of a death.
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define RECORDS 3
#define SLOTS 2

/* Words in shared memory: the record slots' two words each, then: */
#define TAIL 4
#define HEAD 5
#define EFFECT 6
#define ASLEEP 7          /* conductor's */
#define CLIENT_SLEEPS 8
#define WORDS 9
byte mem[WORDS];

/* Store buffers: word and value, in order. */
chan from_client = [3] of { byte, byte };
chan from_conductor = [3] of { byte, byte };

bool bell = false;        /* the eventfd */
bool wake = false;        /* the futex word changed */
bool killed = false;
bool hung_up = false;     /* the socket is closed */
bool survives = false;
bool certified = false;
bool served = false;      /* the conductor ended the port */
byte pushed = 0;
bool client_ended = false;
byte saw = 0;             /* largest head that the client saw */

active proctype memory() {
  byte word, value;
end:
  do
  :: atomic { from_client?word,value -> mem[word] = value }
  :: atomic { from_conductor?word,value -> mem[word] = value }
  od
}

/* The kernel: at any moment the process dies, and its stores are through before that is told. */
active proctype kernel() {
  if
  :: true -> hung_up = true
  :: true -> skip
  fi;
  /* Chosen before: where no death comes, a sleeper that nobody wakes is an invalid end. */
  if
  :: true -> survives = true; client_ended -> skip
  :: true -> killed = true
  fi;
  empty(from_client) -> skip;
#if MUTANT != 10
  atomic { certified = true; bell = true }
#endif
}

inline wait_for_head(least) {
  do
  :: mem[HEAD] >= least -> break
  :: else ->
     from_client!CLIENT_SLEEPS,1;
#if MUTANT != 9
     empty(from_client) -> skip;
#endif
     if
     :: mem[HEAD] >= least -> skip
     /* FUTEX_WAIT compares before it sleeps: a wake-up between the look and the sleep is not lost. */
     :: else -> atomic { wake -> wake = false }
     fi;
     from_client!CLIENT_SLEEPS,0
  od;
  atomic { saw = mem[HEAD]; assert(mem[EFFECT] >= saw) }
}

active proctype client() {
  {
    do
    :: pushed < RECORDS ->
#if MUTANT != 6
       if
       :: pushed >= SLOTS -> wait_for_head(pushed + 1 - SLOTS)
       :: else -> skip
       fi;
#endif
       from_client!((pushed % SLOTS) * 2),(pushed + 1);
#if MUTANT == 1
       from_client!TAIL,(pushed + 1);
       from_client!((pushed % SLOTS) * 2 + 1),(pushed + 1);
#else
       from_client!((pushed % SLOTS) * 2 + 1),(pushed + 1);
       from_client!TAIL,(pushed + 1);
#endif
       pushed++;
#if MUTANT != 3
       empty(from_client) -> skip;
#endif
       if
       :: mem[ASLEEP] == 1 -> empty(from_client) -> bell = true
       :: else -> skip
       fi
    :: else -> break
    od;
    wait_for_head(RECORDS)
  } unless { killed };
  client_ended = true
}

inline take_all() {
  do
  :: tail_seen != taken || mem[TAIL] != taken ->
     if
     :: tail_seen == taken -> tail_seen = mem[TAIL]
     :: else -> skip
     fi;
     assert(tail_seen - taken <= SLOTS);
     first = mem[(taken % SLOTS) * 2];
     second = mem[(taken % SLOTS) * 2 + 1];
     assert(first == taken + 1 && second == taken + 1);
#if MUTANT == 2
     from_conductor!HEAD,(taken + 1);
     from_conductor!EFFECT,(taken + 1);
#else
     from_conductor!EFFECT,(taken + 1);
     from_conductor!HEAD,(taken + 1);
#endif
     taken++;
     empty(from_conductor) -> skip;
     if
     :: mem[CLIENT_SLEEPS] == 1 -> wake = true
     :: else -> skip
     fi
  :: else -> break
  od
}

active proctype conductor() {
  byte taken = 0, tail_seen = 0, first, second;
  bool dead;
  do
  :: true ->
#if MUTANT == 7
     dead = certified || hung_up;
#else
     dead = certified;
#endif
#if MUTANT == 8
     if
     :: dead -> break
     :: else -> skip
     fi;
#endif
     take_all();
     if
     :: dead -> break
     :: else -> skip
     fi;
     from_conductor!ASLEEP,1;
#if MUTANT != 4
     empty(from_conductor) -> skip;
#endif
     if
#if MUTANT != 5
     :: mem[TAIL] != taken -> skip
#endif
     :: else -> atomic { bell -> bell = false }
     fi;
     from_conductor!ASLEEP,0
  od;
  served = true;
  /* Nothing that was published is left, nor can anything follow. */
  (client_ended && empty(from_client)) -> skip;
  assert(taken == mem[TAIL])
}
