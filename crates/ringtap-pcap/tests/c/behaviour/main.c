/*
 * What a client may expect of libpcap on a live capture, one case per run: behaviour CASE CAPTURED PEER.
 *
 * CAPTURED and PEER are the two ends of a veth pair in this namespace: frames sent on PEER come in on CAPTURED. The cases
 * hold for the system's libpcap and for ours; RINGTAP_TEST_OURS=1 adds what only ours promises.
 */
#define _GNU_SOURCE
#include <string.h>

#include "capture.h"
#include "cases.h"

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"counts", case_counts},
    {"timeout", case_timeout},
    {"immediate", case_immediate},
    {"nonblocking", case_nonblocking},
    {"select_blocking", case_select_blocking},
    {"storm", case_storm},
    {"breakloop", case_breakloop},
    {"setfilter", case_setfilter},
    {"snaplen", case_snaplen},
    {"stamps", case_stamps},
    {"stamp_types", case_stamp_types},
    {"vlan", case_vlan},
    {"direction", case_direction},
    {"inject", case_inject},
    {"removal", case_removal},
    {"removal_by_descriptor", case_removal_by_descriptor},
    {"down_and_up", case_down_and_up},
    {"devices", case_devices},
    {"privilege", case_privilege},
    {"errors", case_errors},
    {"stats", case_stats},
    {"nested", case_nested},
    {"fork", case_fork},
    {"oversize", case_oversize},
    {"napi_pause", case_napi_pause},
    {"cycles", case_cycles},
    {"cancel", case_cancel},
    {"asked_meanwhile", case_asked_meanwhile},
    {"jump", case_jump},
    {"refused_filter", case_refused_filter},
};

int main(int count, char **arguments)
{
    CHECK(count == 4, "usage: behaviour CASE CAPTURED PEER");
    captured = arguments[2];
    peer = arguments[3];
    ours = getenv("RINGTAP_TEST_OURS") != NULL;
    CHECK(ours == (strstr(pcap_lib_version(), "Ringtap") != NULL), "this is %s", pcap_lib_version());
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, arguments[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    CHECK(0, "there is no case %s", arguments[1]);
}
