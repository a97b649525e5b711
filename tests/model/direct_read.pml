/* Blocks and items that are granted, committed, evicted and granted anew, under readers that copy first and check then.
 *
 * Stands for lib/table/block_pool.cc (take, give_back), table_items.cc (fill_item, show_item, remove_item), table_lanes.cc
 * (take_over_lane, release), lib/server/writer_port.cc (lose_lane, refuse, give_up), lib/gather/item.cc (read_item) and gather.cc
 * (gather_row: the payload, then `unchanged` and `item_unchanged`).
 *
 * Two blocks of one row of two words, one item slot, two writers, the conductor, one reader. Each grant asks its writer for a
 * value of its own, so a row with two values in it is torn, and a row that is not the one the item was made of is wrong. The first
 * writer may lose its lane to the second at any moment, being a zombie from then on that still stores and commits, and may be
 * killed at any moment. BlockRecord::rows is left out: an item's rows were published before it.
 * The reader is direct (checks the item and the block), or leased and late: it has a draw's record, its pin
 * is gone, and only the block's generation can tell it.
 *
 * Memory is weaker than x86-64's: each store of the conductor waits on its own and reaches memory in any order; a release store
 * (publish) goes after all stores before it, but those after it may pass it; only a release fence (fence_generation_before_payload)
 * holds them back. Loads are done early wherever no acquire (observe(), fence_copy_before_check()) keeps them. A store that is through is seen by all:
 * so are those of every machine that GEAR is for.
 *
 * Invariant: a row that a reader accepts is one writer's committed row, and the item's. A block whose writer may store into it is
 * granted to nobody else.
 *
 * Bounds: 3 grants, one take-over, one kill, one read of each kind that begins at any moment.
 *
 * Mutants: 1 no fence_copy_before_check, 2 no fence_generation_before_payload when an item slot is filled, 3 the item's odd generation is
 * a plain store, 4 so is the commit, 5 the direct reader does not look at the item's generation again, 6 the late reader not at the
 * block's, 7 the grant is a plain store, 8 a lost lane's block is granted anew at once, 9 a killed writer's before its death is
 * certified, 10 the item's fields are read without acquire, 11 a block keeps its generation when it is given back.
 *
 * pan options: -E (what goes on once the read is over is not followed)
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define GRANTS 3
#define NONE 3

/* Words that the conductor writes. */
#define ITEM_GENERATION 0
#define ITEM_BLOCK 1
#define BLOCK_GENERATION 2 /* two blocks */
#define GRANT 4            /* two writers: block * 8 + the value asked for, of the grant in the ring */
#define CONDUCTOR_WORDS 6
byte mem[CONDUCTOR_WORDS];
bool waits[CONDUCTOR_WORDS];
byte coming[CONDUCTOR_WORDS];
byte after[CONDUCTOR_WORDS]; /* the words, as bits, that a waiting release store goes after */

/* Words that writers write: the payload, two words a block, and the value that each committed last. */
byte payload[4];
byte commit[2];
bool payload_waits[8];     /* by writer and word */
byte payload_coming[8];
bool commit_waits[2];
byte commit_coming[2];

byte expected[16];         /* by item generation: the value of its row */
bool over = false;           /* the read is: what follows shows nothing more */
bool certified = false;
bool killed = false;
bool writer_ended = false;
byte accepted = 0;

/* A draw as the conductor posted it, whole. */
byte posted_block, posted_generation, posted_value;

#define conductor_is_through \
  !(waits[0] || waits[1] || waits[2] || waits[3] || waits[4] || waits[5])
#define all_waiting (waits[0] + waits[1] * 2 + waits[2] * 4 + waits[3] * 8 + waits[4] * 16 + waits[5] * 32)
#define writer_is_through(w) \
  !(payload_waits[w * 4] || payload_waits[w * 4 + 1] || payload_waits[w * 4 + 2] || payload_waits[w * 4 + 3] || commit_waits[w])

/* Relaxed, and release. */
inline note(word, value) { atomic { !waits[word] -> coming[word] = value; waits[word] = true } }
inline publish(word, value) { atomic { !waits[word] -> coming[word] = value; after[word] = all_waiting; waits[word] = true } }
/* publish, or a store that goes to memory together with the one of that word before it. */
inline publish_over(word, value) {
  atomic {
    if
    :: !waits[word] -> after[word] = all_waiting
    :: waits[word] && ((after[0] | after[1] | after[2] | after[3] | after[4] | after[5]) & (1 << word)) == 0 ->
       after[word] = after[word] | (all_waiting & ~(1 << word))
    fi;
    coming[word] = value; waits[word] = true
  }
}
inline release_fence() { conductor_is_through -> skip }

inline drain(word) {
  mem[word] = coming[word]; waits[word] = false; coming[word] = 0;
  after[0] = after[0] & ~(1 << word); after[1] = after[1] & ~(1 << word); after[2] = after[2] & ~(1 << word);
  after[3] = after[3] & ~(1 << word); after[4] = after[4] & ~(1 << word); after[5] = after[5] & ~(1 << word)
}

inline select_payload(i) {
  if
  :: payload_waits[0] -> i = 0
  :: payload_waits[1] -> i = 1
  :: payload_waits[2] -> i = 2
  :: payload_waits[3] -> i = 3
  :: payload_waits[4] -> i = 4
  :: payload_waits[5] -> i = 5
  :: payload_waits[6] -> i = 6
  :: payload_waits[7] -> i = 7
  fi
}

active proctype memory() provided (!over) {
  byte i;
end:
  do
  :: atomic { waits[0] && after[0] == 0 -> drain(0) }
  :: atomic { waits[1] && after[1] == 0 -> drain(1) }
  :: atomic { waits[2] && after[2] == 0 -> drain(2) }
  :: atomic { waits[3] && after[3] == 0 -> drain(3) }
  :: atomic { waits[4] && after[4] == 0 -> drain(4) }
  :: atomic { waits[5] && after[5] == 0 -> drain(5) }
  :: atomic {
       select_payload(i);
       payload[i % 4] = payload_coming[i]; payload_waits[i] = false; payload_coming[i] = 0; i = 0
     }
  :: atomic { commit_waits[0] -> commit[0] = commit_coming[0]; commit_waits[0] = false; commit_coming[0] = 0 }
  :: atomic { commit_waits[1] -> commit[1] = commit_coming[1]; commit_waits[1] = false; commit_coming[1] = 0 }
  od
}
inline store_payload(w, word, value) {
  atomic { !payload_waits[w * 4 + word] -> payload_coming[w * 4 + word] = value; payload_waits[w * 4 + word] = true }
}

/* A writer fills the block of the grant that it acquired, and commits. The second one never dies. */
proctype writer(byte w) provided (!over) {
  byte value = 0, block;
  {
    do
    :: atomic { mem[GRANT + w] % 8 != value -> value = mem[GRANT + w] % 8; block = mem[GRANT + w] / 8 };
       store_payload(w, block * 2, value);
       store_payload(w, block * 2 + 1, value);
#if MUTANT == 4
       atomic { !commit_waits[w] -> commit_coming[w] = value; commit_waits[w] = true }
#else
       atomic { writer_is_through(w) -> commit_coming[w] = value; commit_waits[w] = true }
#endif
    od
  } unless { killed && w == 0 };
  if
  :: w == 0 -> writer_ended = true
  :: else -> skip
  fi
}

/* The kernel. */
active proctype kernel() provided (!over) {
  if
  :: true -> skip
  :: true -> killed = true;
     writer_ended && writer_is_through(0) -> certified = true
  fi
}

/* The conductor's own copies. */
byte generation = 0, row_block = NONE;  /* of the item: its block, NONE when there is none */
byte block_generation[2];
byte owner[2] = NONE;                   /* of each block: the writer that may store into it, or NONE: free, or committed */
bool held[2];                           /* admitted, or granted */
bool lost = false, ended = false;       /* the first writer's lane; its port */
byte asked[2];                          /* the value of each writer's grant that is not committed yet, 0: none */
byte given = 0;

inline give_back(b) {
#if MUTANT != 11
  atomic { block_generation[b]++; publish(BLOCK_GENERATION + b, block_generation[b]) };
#endif
  atomic { held[b] = false; owner[b] = NONE }
}

inline turn_even() {
  atomic { generation++; publish(ITEM_GENERATION, generation) }
}

inline evict() {
  if
  :: row_block != NONE ->
     turn_even();
     give_back(row_block);
     row_block = NONE
  :: else -> skip
  fi
}

inline grant(w, b) {
  atomic {
    given++; held[b] = true; owner[b] = w; asked[w] = given;
#if MUTANT == 11
    if
    :: block_generation[b] % 2 == 0 -> block_generation[b]++
    :: else -> skip
    fi;
#else
    block_generation[b]++;
#endif
    publish_over(BLOCK_GENERATION + b, block_generation[b])
  };
#if MUTANT == 7
  note(GRANT + w, b * 8 + given)
#else
  publish(GRANT + w, b * 8 + given)
#endif
}

/* The item slot is filled anew with the row in block b. */
inline admit(w, b) {
  owner[b] = NONE;
  evict();
#if MUTANT != 2
  release_fence();
#endif
  note(ITEM_BLOCK, b);
  atomic {
    generation++; expected[generation] = asked[w]; row_block = b; asked[w] = 0;
#if MUTANT == 3
    note(ITEM_GENERATION, generation)
#else
    publish(ITEM_GENERATION, generation)
#endif
  }
}

inline take_commit(w) {
  if
  :: owner[0] == w -> b = 0
  :: else -> b = 1
  fi;
  if
  :: w == 0 && lost -> asked[w] = 0 /* refused; the block stays until the writer is certified dead */
  :: else -> admit(w, b)
  fi
}

active proctype conductor() provided (!over) {
  byte b;
  atomic { run writer(0); block_generation[0] = 0 };
  do
  :: asked[0] != 0 && commit[0] == asked[0] && !ended -> take_commit(0)
  :: asked[1] != 0 && commit[1] == asked[1] -> take_commit(1)
  :: given < GRANTS && asked[0] == 0 && !lost && !ended && (!held[0] || !held[1]) ->
     if
     :: !held[0] -> b = 0
     :: else -> b = 1
     fi;
     grant(0, b)
  :: given < GRANTS && asked[1] == 0 && lost && (!held[0] || !held[1]) ->
     if
     :: !held[0] -> b = 0
     :: else -> b = 1
     fi;
     grant(1, b)
  /* Any writer that has the lane's name may take it over. */
  :: !lost && !ended && given > 0 ->
     atomic { lost = true; run writer(1) };
#if MUTANT == 8
     if
     :: owner[0] == 0 -> give_back(0)
     :: owner[1] == 0 -> give_back(1)
     :: else -> skip
     fi
#endif
#if MUTANT == 9
  :: killed && !ended ->
#else
  :: certified && !ended && !(asked[0] != 0 && commit[0] == asked[0]) ->
#endif
     atomic {
       ended = true; asked[0] = 0;
       if
       :: !lost -> lost = true; run writer(1)
       :: else -> skip
       fi
     };
     if
     :: owner[0] == 0 -> give_back(0)
     :: owner[1] == 0 -> give_back(1)
     :: else -> skip
     fi
  /* The remover, when a grant is wanted and nothing is free. */
  :: given < GRANTS && asked[0] == 0 && asked[1] == 0 && held[0] && held[1] && row_block != NONE -> evict()
  od
}

/* Two words in any order. */
inline copy(b) {
  if
  :: true -> first = payload[b * 2]; second = payload[b * 2 + 1]
  :: true -> second = payload[b * 2 + 1]; first = payload[b * 2]
  fi
}

inline read_directly() {
  /* read_item */
#if MUTANT == 10
  if
  :: true -> block = mem[ITEM_BLOCK]; seen = mem[ITEM_GENERATION]
  :: true -> seen = mem[ITEM_GENERATION]; block = mem[ITEM_BLOCK]
  fi;
#else
  seen = mem[ITEM_GENERATION];
  block = mem[ITEM_BLOCK];
#endif
  before = mem[BLOCK_GENERATION + block];
#if MUTANT != 5
  item_after = mem[ITEM_GENERATION];
#else
  item_after = seen;
#endif
  if
  :: seen % 2 == 0 || item_after != seen || before % 2 == 0 -> goto ended_read
  :: else -> skip
  fi;
  /* gather_row */
#if MUTANT == 1
  if
  :: true -> item_after = mem[ITEM_GENERATION]; block_after = mem[BLOCK_GENERATION + block]; copy(block)
  :: true -> copy(block); block_after = mem[BLOCK_GENERATION + block]; item_after = mem[ITEM_GENERATION]
  fi;
#else
  copy(block);
  block_after = mem[BLOCK_GENERATION + block];
#if MUTANT != 5
  item_after = mem[ITEM_GENERATION];
#endif
#endif
  if
  :: block_after == before && item_after == seen ->
     assert(first == second);
     assert(first == expected[seen])
  :: else -> skip
  fi;
}

inline read_late() {
  atomic {
    generation % 2 == 1 ->
    posted_block = row_block; posted_generation = block_generation[row_block]; posted_value = expected[generation]
  };
#if MUTANT == 1
  if
  :: true -> block_after = mem[BLOCK_GENERATION + posted_block]; copy(posted_block)
  :: true -> copy(posted_block); block_after = mem[BLOCK_GENERATION + posted_block]
  fi;
#else
  copy(posted_block);
#if MUTANT == 6
  block_after = posted_generation;
#else
  block_after = mem[BLOCK_GENERATION + posted_block];
#endif
#endif
  if
  :: block_after == posted_generation ->
     assert(first == second);
     assert(first == posted_value)
  :: else -> skip
  fi;
}

active proctype reader() {
  byte seen, block, before, block_after, item_after, first, second;
  if
  :: true -> read_directly()
  :: true -> read_late()
  fi;
ended_read:
  over = true
}
