/* Messages on standard error, each one line that begins with "collforge: ". */
#ifndef COLLFORGE_LOG_H_INCLUDED
#define COLLFORGE_LOG_H_INCLUDED

/* verbose: 0 warnings only, 1 what is active and why not, 2 every distinct decision. */
void cf_log_setup(int verbose);
int cf_log_level(void);

/* Printed from this level on. */
__attribute__((format(printf, 2, 3))) void cf_log(int level, const char *format, ...);

/*
 * Something the user should put right. One a process: from the second on only at level 1. To be
 * called on world rank 0.
 */
__attribute__((format(printf, 1, 2))) void cf_warn(const char *format, ...);

#endif
