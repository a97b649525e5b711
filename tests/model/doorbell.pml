/* Ring and doorbell (lib/shm/ring.h, lib/shm/doorbell.h, the conductor's rest): no wake-up is lost.
 *
 * One producer, one consumer. The producer publishes a record, fences, looks whether the consumer sleeps, and rings if so;
 * the consumer announces its sleep, fences, looks at the ring once more, sleeps on the bell, and takes the announcement
 * back. Both directions of a channel have this shape: the bell is an eventfd for the conductor, a futex word for the client
 * (of which FUTEX_WAIT itself checks that it did not change: the bell that stays rung).
 *
 * Memory is that of x86-64 (TSO): a store waits in a buffer of its processor, one entry deep here, and reaches memory when it
 * likes, at a fence, before the next store, or before a system call returns. A processor reads its own buffered store.
 * One entry is enough: each side has one store between its last fence and its look.
 *
 * Mutants, each of which must fail: -DMUTANT=1 no fence of the producer, 2 no fence of the consumer, 3 the producer
 * looks before it publishes, 4 the consumer does not look again after its announcement, 5 a bell that is forgotten when
 * nobody sleeps on it yet.
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef RECORDS
#define RECORDS 4
#endif
#define SLOTS 2

/* Shared memory, and what waits on the way to it. */
byte tail = 0;       /* producer writes */
byte head = 0;       /* consumer writes */
bool asleep = false; /* consumer writes */
bool tail_waits = false;   byte tail_new = 0;
bool head_waits = false;   byte head_new = 0;
bool asleep_waits = false; bool asleep_new = false;

/* The bell is the kernel's: a system call is a fence. */
bool bell = false;
bool consumer_sleeps = false;

byte pushed = 0;
byte taken = 0;

/* Each buffered store drains at any moment. */
active proctype memory() {
end:
  do
  :: atomic { tail_waits -> tail = tail_new; tail_waits = false }
  :: atomic { head_waits && !asleep_waits -> head = head_new; head_waits = false }
  :: atomic { asleep_waits && !head_waits -> asleep = asleep_new; asleep_waits = false }
  od
}

/* One buffer a processor: the next store waits until it is empty. */
inline store_tail(value)   { atomic { !tail_waits -> tail_new = value; tail_waits = true } }
inline store_head(value)   { atomic { !head_waits && !asleep_waits -> head_new = value; head_waits = true } }
inline store_asleep(value) { atomic { !head_waits && !asleep_waits -> asleep_new = value; asleep_waits = true } }
inline producer_fence()    { !tail_waits }
inline consumer_fence()    { !head_waits && !asleep_waits }

inline ring_if_asleep() {
  if
  :: asleep ->
     producer_fence();
     atomic {
#if MUTANT == 5
       bell = consumer_sleeps
#else
       bell = true
#endif
     }
  :: else
  fi
}

active proctype producer() {
  do
  :: pushed < RECORDS ->
     (pushed - head < SLOTS);  /* room; waiting for it is the other direction's affair */
     pushed++;
#if MUTANT == 3
     ring_if_asleep();
     store_tail(pushed)
#else
     store_tail(pushed);
#if MUTANT != 1 && !defined(MEMBARRIER)
     producer_fence();
#endif
     ring_if_asleep()
#endif
  :: else -> break
  od
}

/* The consumer's own view of the ring. */
inline take_all() {
  do
  :: taken < tail -> assert(tail - taken <= SLOTS); taken++; store_head(taken)
  :: else -> break
  od
}

active proctype consumer() {
  do
  :: taken < RECORDS ->
     take_all();
     if
     :: taken == RECORDS -> break
     :: else
     fi;
     store_asleep(true);
#if MUTANT != 2
     consumer_fence();
#ifdef MEMBARRIER
     producer_fence();  /* the consumer makes it: at some moment before it goes on, the producer's store has drained */
#endif
#endif
     if
#if MUTANT != 4
     :: taken < tail -> skip
#endif
     :: else ->
        consumer_sleeps = true;
        /* Asleep: only the bell ends it. With a record in the ring and nobody to ring, this blocks for ever. */
        atomic { bell -> bell = false; consumer_sleeps = false };
        consumer_fence()
     fi;
     store_asleep(false)
  :: else -> break
  od;
  assert(taken == RECORDS)
}
