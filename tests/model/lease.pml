/* Leases of a consumer group: posted, taken, acknowledged, expired, given back; the client is slow, stopped or killed.
 *
 * Stands for lib/server/sampler_port.cc (take, release, tick, give_up), lib/client/leases.cc (LeaseLine::end) and leased_source.cc
 * (when drawn_ns is noted), lib/table/table_groups.cc (acknowledge, deliver_again), and of lib/layout/ledger.h LeaseRecord (number,
 * item_generation) and GroupProgress, which is kept by item slot.
 *
 * The client copies a posted draw out, notes its clock, and submits kTake; later it looks at the clock, submits kRelease (kReject
 * when it is late already), looks at the clock again, and returns OK or ESTALE. A stopped client is one that is slow. The
 * conductor takes records, posts, ends leases that are over, and after a certified death returns what is left. Both have the one clock
 * of the machine. The ring's tail waits in a store buffer (x86-64). An item slot may be evicted and filled anew at any time; what is
 * drawn stays pinned.
 *
 * Invariants: an item of which the client was told OK is never delivered again; one that was delivered and not acknowledged is to be
 * delivered again; after the clock's end, or the client's, no lease is taken that is over: nothing stays pinned.
 *
 * Bounds: one item slot, filled anew once; 2 lease places, 3 deliveries; a ring of 2; leases of 1 tick, 2 ticks.
 *
 * Mutants: 1 no drain before leases expire, 2 the conductor's clock is read after that drain, 3 the client's clock is noted after kTake
 * is submitted, 4 the client does not look at it again after kRelease, 5 a release does not compare the lease's number, 6 an
 * acknowledgement not the item's generation, 7 no drain after death, 8 taken leases are forgotten at death, 9 no fence between the
 * record and the second look at the clock, 10 a lease runs from its posting, kTake being still in the ring, 11 an expired lease ends like
 * an acknowledged one, 12 posted leases are forgotten at death.
 *
 * pan: reduced (partial order reduction, which keeps assertions and deadlocks)
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define TICKS 2
#define TIMEOUT 1
#define DELIVERIES 3

#define TAKE 1
#define RELEASE 2
#define REJECT 3
#define NONE 0
#define POSTED 1
#define TAKEN 2
#define NEW 0
#define DELIVERED 1
#define SETTLED 2

byte clock = 0;

/* The submission ring. */
byte op[2], number[2];
byte tail = 0, head = 0;
bool tail_waits = false;
byte tail_new = 0;

/* The completion ring: how many draws are posted; what they are is in the leases. */
byte posted = 0;

/* The conductor's facts. There is one item slot: an item is its generation, 0 or 1. */
byte lease_state[2], lease_number[2], lease_item[2], lease_from[2];
byte resolved = 0;
byte generation = 0;
byte progress = NEW;
bool again[2];

/* What happened to each item. */
bool delivered[2], released[2], told_ok[2];
byte item_of[DELIVERIES];

bool killed = false, client_ended = false, certified = false;

active proctype memory() {
end:
  do
  :: atomic { tail_waits -> tail = tail_new; tail_waits = false }
  od
}

active proctype time() {
  do
  :: clock < TICKS -> clock++
  :: else -> break
  od
}

active proctype kernel() {
  if
  :: true -> killed = true; client_ended && !tail_waits -> certified = true
  :: true -> skip
  fi
}

/* One step: nobody reads the record before its tail, which waits in the buffer. */
inline push(what, which) {
  atomic {
    !tail_waits -> op[pushed % 2] = what; number[pushed % 2] = which;
    pushed++; tail_new = pushed; tail_waits = true
  }
}

active proctype client() {
  byte pushed = 0, taken = 0, lease, before, now;
  byte drawn[DELIVERIES];
  bool held[DELIVERIES];
  bool late;
  {
    do
    :: taken < posted && pushed - head < 2 ->
#if MUTANT == 3
       push(TAKE, taken);
       drawn[taken] = clock;
#else
       drawn[taken] = clock;
       push(TAKE, taken);
#endif
       atomic { held[taken] = true; taken++ }
    :: taken > 0 ->
       if
       :: held[0] -> lease = 0
       :: held[1] -> lease = 1
       :: held[2] -> lease = 2
       :: clock == TICKS -> break
       fi;
       atomic { held[lease] = false; before = clock; late = before - drawn[lease] > TIMEOUT };
       if
       :: pushed - head < 2 ->
          if
          :: late -> push(REJECT, lease)
          :: else -> atomic { released[item_of[lease]] = true }; push(RELEASE, lease)
          fi;
#if MUTANT != 9
          !tail_waits -> skip;
#endif
#if MUTANT == 4
          now = before;
#else
          now = clock;
#endif
          if
          :: !late && now - drawn[lease] <= TIMEOUT -> told_ok[item_of[lease]] = true
          :: else -> skip
          fi;
          atomic { drawn[lease] = 0; now = 0; before = 0; late = false; lease = 0 }
       :: clock - drawn[lease] > TIMEOUT -> /* no room for so long: ESTALE */
          atomic { drawn[lease] = 0; late = false; before = 0; lease = 0 }
       fi
    :: clock == TICKS -> break
    od
  } unless { killed };
  client_ended = true
}

inline acknowledge(place) {
  if
#if MUTANT == 6
  :: true
#else
  :: lease_item[place] == generation
#endif
     -> progress = SETTLED
  :: else -> skip
  fi;
  lease_state[place] = NONE
}

inline deliver_again(place) {
  again[lease_item[place]] = true;
  lease_state[place] = NONE
}

/* The record at the head. */
inline apply() {
  atomic {
    place = number[head % 2] % 2;
    if
    :: op[head % 2] == TAKE ->
       place = resolved % 2;
       lease_state[place] = TAKEN;
#if MUTANT != 10
       lease_from[place] = clock;
#endif
       resolved++
    :: op[head % 2] != TAKE ->
       if
#if MUTANT == 5
       :: lease_state[place] == TAKEN ->
#else
       :: lease_state[place] == TAKEN && lease_number[place] == number[head % 2] ->
#endif
          if
          :: op[head % 2] == RELEASE -> acknowledge(place)
          :: else -> deliver_again(place)
          fi
       :: else -> skip
       fi
    fi;
    op[head % 2] = 0; number[head % 2] = 0; place = 0;
    head++
  }
}

inline drain() {
  do
  :: tail != head -> apply()
  :: else -> break
  od
}

inline post(item) {
  atomic {
    assert(!told_ok[item]);
    place = posted % 2;
    lease_state[place] = POSTED; lease_number[place] = posted; lease_item[place] = item; lease_from[place] = clock;
    delivered[item] = true; item_of[posted] = item;
    posted++
  }
}

#define over(place) (lease_state[place] == TAKEN && now - lease_from[place] > TIMEOUT)
#if MUTANT == 11
#define expire(place) acknowledge(place)
#else
#define expire(place) deliver_again(place)
#endif

inline tick() {
  now = clock;
#if MUTANT != 1
  drain();
#endif
#if MUTANT == 2
  now = clock;
#endif
  atomic {
    if
    :: over(0) -> expire(0)
    :: else -> skip
    fi;
    if
    :: over(1) -> expire(1)
    :: else -> skip
    fi;
    place = 0
  }
}

inline give_up() {
  atomic {
    place = 0;
    do
    :: place < 2 ->
       if
#if MUTANT != 8
       :: lease_state[place] == TAKEN -> deliver_again(place)
#endif
#if MUTANT != 12
       :: lease_state[place] == POSTED -> deliver_again(place)
#endif
       :: else -> skip
       fi;
       place++
    :: else -> break
    od
  }
}

/* Port::work: what is in the ring first. */
#define may_post (tail == head && posted < DELIVERIES && lease_state[posted % 2] == NONE)
/* Acknowledged by a record that the conductor took, or one that was too late for it; else it is to come again. */
#define accounted(item) \
  assert(!delivered[item] || again[item] || released[item]); \
  assert(!(told_ok[item] && again[item]))

active proctype conductor() {
  byte place, now;
  do
  :: tail != head -> apply()
  :: may_post && progress == NEW -> progress = DELIVERED; post(generation)
  :: may_post && again[0] -> again[0] = false; post(0)
  :: may_post && again[1] -> again[1] = false; post(1)
  /* The slot's item is evicted, and another one is in its place. */
  :: tail == head && generation == 0 && progress != NEW -> atomic { generation = 1; progress = NEW }
  :: lease_state[0] == TAKEN || lease_state[1] == TAKEN -> tick(); now = 0
  :: certified ->
#if MUTANT != 7
     drain();
#endif
     give_up();
     assert(lease_state[0] == NONE && lease_state[1] == NONE);
     accounted(0); accounted(1);
     assert(progress != SETTLED || released[generation]);
     break
  /* A client that stopped for good: what it took has ended all the same. */
  :: !killed && clock == TICKS && client_ended ->
     tick();
     assert(!over(0) && !over(1));
     break
  od
}
