/* The cases, each a run of its own. */
#ifndef CASES_H
#define CASES_H

void case_counts(void);
void case_timeout(void);
void case_immediate(void);
void case_nonblocking(void);
void case_select_blocking(void);
void case_storm(void);
void case_breakloop(void);
void case_setfilter(void);
void case_snaplen(void);
void case_stamps(void);
void case_stamp_types(void);
void case_vlan(void);
void case_direction(void);
void case_inject(void);
void case_removal(void);
void case_removal_by_descriptor(void);
void case_down_and_up(void);
void case_devices(void);
void case_privilege(void);
void case_errors(void);
void case_stats(void);
void case_nested(void);
void case_fork(void);
void case_oversize(void);
void case_napi_pause(void);
void case_cycles(void);
void case_cancel(void);
void case_asked_meanwhile(void);
void case_jump(void);
void case_refused_filter(void);

#endif
