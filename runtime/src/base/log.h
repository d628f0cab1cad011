/* Messages on standard error, each one line that begins with "collforge: ". */
#ifndef COLLFORGE_LOG_H_INCLUDED
#define COLLFORGE_LOG_H_INCLUDED

/* verbose: 0 warnings only; 1 also what is active, or why not; 2 also every distinct decision. */
void cf_log_setup(int verbose);
int cf_log_level(void);

/* Prints if verbose is at least this level. */
__attribute__((format(printf, 2, 3))) void cf_log(int level, const char *format, ...);

/*
 * For problems that the user should fix. Only the first one of a process is printed at verbose 0.
 * Call on world rank 0.
 */
__attribute__((format(printf, 1, 2))) void cf_warn(const char *format, ...);

#endif
