/* What the test's own process holds, and its clock. */
#ifndef PROCESS_H
#define PROCESS_H

/* How many file descriptors are open. */
int descriptors(void);

/* Resident memory, KiB. */
long resident_kib(void);

/* CLOCK_MONOTONIC, seconds. */
double now(void);

#endif
