/* A conductor that is killed after any store, and the next one, which adopts what it finds and goes on.
 *
 * Stands for lib/layout/directory.h IntentRecord, lib/layout/ledger.h ChannelRecord::applied, lib/table/table_steps.cc (commit: append_row,
 * then the item), table_items.cc (show_item: the generation, `inserts`, make_room; remove_item: the generation, `deletes`), Port::work
 * (the effect, `applied`, and after a run the head), and the adoption: counters are put right by the live items and the intent, a
 * step that was begun is ended, the ring is taken from `applied` on.
 *
 * Shared memory keeps what a killed process stored, in the order in which it did. Records are commits of one row, which carry the
 * lane's rows and make an item each (kRow), or items of rows there are (kItem), in any sequence. The table holds one item, so each
 * next one has an older one evicted, or is evicted itself. A client pushes the records and takes a head for an acknowledgement.
 *
 * Invariants: when all is done each record had its effect exactly once (rows, steps, items made), items == inserts - deletes and the
 * counters are exact; a head that was published is never taken back, and every record before it had its effect.
 *
 * Bounds: 3 records, 2 deaths, also in the middle of an adoption; one item, 2 slots.
 *
 * Mutants: 1 `applied` before the effect, 2 no intent, 3 the intent is cleared before `applied` moves, 4 inserts counted after
 * make_room, 5 the intent's op is written before its fields, 6 steps are counted from what is there and not from the intent, 7 the head is
 * published before the effect, 8 an intent of a record that is applied is taken for one of the next, 9 the next conductor begins at the
 * published head, 10 a commit does not look at the lane's rows, 11 the adoption clears an intent before it ends its step, 12 the
 * counters are not put right by the live items.
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define RECORDS 3
#define DEATHS 2

#define NOTHING 0
#define ROW 1
#define ITEM 2

/* The ring: what each record is, and its tail. */
byte record[RECORDS];
byte tail = 0;

/* Shared memory. */
byte head = 0;
byte applied = 0;
byte rows = 0, steps = 0, inserts = 0, deletes = 0;
byte generation[2];
byte intent_op = NOTHING, intent_position, intent_slot, intent_generation, intent_row, intent_steps;

/* What the world saw. */
byte made[RECORDS];      /* items, by record */
byte acknowledged = 0;
byte deaths = 0;
bool finished = false;

#define live (generation[0] % 2 + generation[1] % 2)

/* One store, after which the process may be killed. */
#define OR_DIE \
  if \
  :: true -> skip \
  :: deaths < DEATHS -> goto died \
  fi
#define STORE(what) atomic { what; OR_DIE }

active proctype client() {
  do
  :: tail < RECORDS ->
     atomic {
       if
       :: record[tail] = ROW
       :: tail > 0 -> record[tail] = ITEM
       fi;
       tail++
     }
  :: atomic { head > acknowledged ->
       acknowledged = head;
       assert(made[0] == 1);
       assert(acknowledged < 2 || made[1] == 1);
       assert(acknowledged < 3 || made[2] == 1)
     }
  :: atomic { acknowledged == RECORDS -> break }
  od
}

/* The remover may pick any item, the incoming one too. */
inline make_room() {
  do
  :: live > 1 ->
     atomic {
       if
       :: generation[0]++
       :: generation[1]++
       fi;
       OR_DIE
     };
     STORE(deletes++)
  :: else -> break
  od
}

inline count_insert() {
  STORE(inserts++)
}

/* The item of the intent, and what goes with it. */
inline make_item() {
  atomic { generation[slot]++; made[position]++; OR_DIE };
#if MUTANT == 4
  make_room();
  count_insert()
#else
  count_insert();
  make_room()
#endif
}

inline write_intent(op) {
  skip;
#if MUTANT != 2
  STORE(intent_op = NOTHING);
#if MUTANT == 5
  STORE(intent_op = op);
#endif
  STORE(intent_position = position);
  STORE(intent_row = rows);
  STORE(intent_slot = slot);
  STORE(intent_generation = generation[slot]);
  STORE(intent_steps = steps);
#if MUTANT != 5
  STORE(intent_op = op);
#endif
#endif
  skip
}

inline find_slot() {
  if
  :: generation[0] % 2 == 0 -> slot = 0
  :: else -> slot = 1
  fi
}

inline apply() {
  find_slot();
  if
  :: record[position] == ROW ->
     if
#if MUTANT != 10
     :: rows < rows_with -> skip
#else
     :: true -> skip
#endif
     :: rows >= rows_with -> goto effect_is_there
     fi;
     write_intent(ROW);
     STORE(rows++);
#if MUTANT == 6
     STORE(steps++);
#else
     before = steps;
     STORE(steps = before + 1);
#endif
     make_item()
  :: record[position] == ITEM ->
     write_intent(ITEM);
     make_item()
  fi;
effect_is_there:
  skip
}

/* The rows that the lane has with this record: what its commit says. */
inline count_rows_with() {
  atomic {
    rows_with = (record[0] == ROW);
    if
    :: position >= 1 -> rows_with = rows_with + (record[1] == ROW)
    :: else -> skip
    fi;
    if
    :: position >= 2 -> rows_with = rows_with + (record[2] == ROW)
    :: else -> skip
    fi
  }
}

inline end_step() {
  slot = intent_slot;
  if
  :: intent_op == ROW && rows > intent_row ->
#if MUTANT == 6
     STORE(steps++);
#else
     STORE(steps = intent_steps + 1);
#endif
     if
     :: generation[slot] == intent_generation -> make_item()
     :: else -> make_room()
     fi
  :: intent_op == ITEM && generation[slot] != intent_generation ->
     make_room();
     STORE(applied = position + 1)
  :: else -> skip
  fi
}

inline adopt() {
#if MUTANT != 12
  /* At most one unit is missing: items are made and counted, or removed and counted, one after the other. */
  if
  :: live > inserts - deletes -> STORE(inserts++)
  :: live < inserts - deletes -> STORE(deletes++)
  :: else -> skip
  fi;
#endif
#if MUTANT == 9
  STORE(applied = head);
#endif
  position = applied;
#if MUTANT == 11
  op = intent_op;
  STORE(intent_op = NOTHING);
  intent_op = op;
#endif
  if
#if MUTANT == 8
  :: intent_op != NOTHING -> end_step()
#else
  :: intent_op != NOTHING && intent_position == position -> end_step()
#endif
  :: else -> skip
  fi;
  STORE(intent_op = NOTHING)
}

proctype conductor() {
  byte position, slot, rows_with, before, op;
  adopt();
  position = applied;
  do
  :: position < tail ->
     count_rows_with();
#if MUTANT == 1
     STORE(applied = position + 1);
#endif
#if MUTANT == 7
     STORE(head = position + 1);
#endif
     apply();
#if MUTANT == 3
     STORE(intent_op = NOTHING);
#endif
     STORE(applied = position + 1);
     atomic { position++; slot = 0; rows_with = 0; before = 0 }
  /* After each run of records. */
  :: head < position -> STORE(head = position)
  :: position == RECORDS && head == RECORDS -> break
  od;
  finished = true;
  goto over;
died:
  atomic { deaths++; run conductor() };
over:
  skip
}

init {
  run conductor();
  finished && acknowledged == RECORDS;
  assert(applied == RECORDS && head == RECORDS);
  assert(made[0] == 1 && made[1] == 1 && made[2] == 1);
  assert(rows == (record[0] == ROW) + (record[1] == ROW) + (record[2] == ROW));
  assert(steps == rows);
  assert(inserts == RECORDS);
  assert(live == 1);
  assert(deletes == RECORDS - 1)
}
