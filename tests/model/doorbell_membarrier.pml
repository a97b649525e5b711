/* The doorbell where the consumer makes the producer's fence by membarrier: the producer publishes and looks with nothing in
 * between. The model is doorbell.pml's but for these two places.
 */
#define MEMBARRIER
#include "doorbell.pml"

/* Its mutants, each of which must fail:
#if MUTANT == 2  neither fence of the consumer: its own, and the one it makes for the producer
#if MUTANT == 4  no look after the announcement
#if MUTANT == 5  a bell that is forgotten
 */
