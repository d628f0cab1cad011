/*
 * COLLFORGE_REPORT: the collectives that each rank is in, printed on a signal, or for those that
 * last longer than a time. A job that hangs then tells where. Only blocking collectives; each
 * thread has one at a time.
 */
#ifndef COLLFORGE_REPORT_H_INCLUDED
#define COLLFORGE_REPORT_H_INCLUDED

#include "comm/comm.h"

/* Reads "60", "USR1", "USR2" or both as "60,USR2". Zeros where it is none of these. */
bool cf_report_parse(const char *text, int *seconds, int *signal);

/* In MPI_Init on each rank whose own environment names a signal, so that it never ends the job,
 * also where the library stays off. Not if the program has set a handler. */
void cf_report_catch(void);

/* 0: no time, no signal. rank: in MPI_COMM_WORLD. A signal's handler that the program sets later
 * replaces this one. */
void cf_report_start(int seconds, int signal, int rank);
void cf_report_stop(void);

/* This thread's call. bytes as in cf_observe_call. choice: NULL for native. Do nothing unless
 * started. */
void cf_report_call(const struct cf_state *state, int collective, int64_t bytes);
void cf_report_choice(const struct cf_choice *choice);
void cf_report_end(void);

#endif
