/*
 * Odd sequences of calls: odd SEED CALLS CAPTURED PEER FILE.
 *
 * Every function that takes a handle is called on null, on handles not yet activated, active, of files and of no device, in
 * any order and with senseless arguments. Nothing may crash or block; what is checked is that a wrong state has libpcap's
 * code, and that after the last handle no descriptor is left. Freed handles are not used: that is the caller's error.
 */
#define _GNU_SOURCE
#include <net/if.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"

enum { SLOTS = 5 };
enum state { NOTHING, CREATED, ACTIVE, FIXED };

static struct {
    pcap_t *p;
    enum state state;
    int nonblocking;
} slots[SLOTS];

static unsigned long long state;
static long step;
static const char *captured, *file;

#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "call %ld: %s failed\n", step, #condition);            \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

/* xorshift64*: the same calls for the same seed. */
static unsigned any_below(unsigned n)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (unsigned)((state * 0x2545f4914f6cdd1dULL) >> 33) % n;
}

static int odd_number(void)
{
    static const int numbers[] = {-1, 0, 1, 2, 3, 5, 64, 96, 4096, 65535, 262144, 1 << 20, 0x7fffffff, (int)0x80000000};
    return numbers[any_below(sizeof numbers / sizeof *numbers)];
}

static const char *device(char *name, size_t size)
{
    static const char *const options[] = {"", "?backend=packet", "?backend=xdp", "?backend=socket", "?backend=system",
        "?max_latency=100us&ring=64", "?ring=1", "?nonsense", "?backend=", "?=&&==", "?max_latency=1e400s"};
    switch (any_below(10)) {
    case 0: return NULL;
    case 1: return "any";
    case 2: return "lo";
    case 3: return "";
    case 4: return "no-such-device-with-a-long-name";
    case 5: return "ringtap:";
    case 6: return captured;
    default:
        snprintf(name, size, "ringtap:%s%s", captured, options[any_below(sizeof options / sizeof *options)]);
        return name;
    }
}

static void nothing(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
    pcap_t *p = (pcap_t *)user;
    volatile u_char last = header->caplen ? data[header->caplen - 1] : 0;
    (void)last;
    if (any_below(8) == 0)
        pcap_breakloop(p);
    if (any_below(16) == 0) {
        struct pcap_stat stat;
        pcap_stats(p, &stat);
    }
}

static void open_one(int slot)
{
    char errbuf[PCAP_ERRBUF_SIZE] = "", name[128];
    pcap_t *p = NULL;
    int is_live = 0;
    switch (any_below(8)) {
    case 0:
        p = pcap_open_dead(odd_number(), odd_number());
        break;
    case 1:
        p = pcap_open_offline(any_below(4) ? file : "/no/such/file", errbuf);
        break;
    case 2:
        is_live = 1;
        p = pcap_open_live(device(name, sizeof name), odd_number(), any_below(2), 1, errbuf);
        break;
    default:
        p = pcap_create(device(name, sizeof name), errbuf);
        slots[slot].state = CREATED;
        if (p)
            pcap_set_timeout(p, 1);
        slots[slot].p = p;
        slots[slot].nonblocking = 0;
        if (!p) {
            CHECK(errbuf[0] != 0);
            slots[slot].state = NOTHING;
        }
        return;
    }
    slots[slot].p = p;
    slots[slot].state = p ? (is_live ? ACTIVE : FIXED) : NOTHING;
    slots[slot].nonblocking = 0;
}

static void one_call(int slot)
{
    pcap_t *p = slots[slot].p;
    enum state was = slots[slot].state;
    char errbuf[PCAP_ERRBUF_SIZE] = "";
    struct pcap_pkthdr *header, own;
    const u_char *data;
    struct bpf_program program;
    struct pcap_stat stat;
    int *list, result;
    u_char frame[60] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5};
    switch (any_below(34)) {
    case 0:
        if (!p)
            open_one(slot);
        break;
    case 1:
        pcap_close(p);
        slots[slot].p = NULL;
        slots[slot].state = NOTHING;
        break;
    case 2:
    case 3:
    case 4:
        result = pcap_activate(p);
        if (was == CREATED && result >= 0)
            slots[slot].state = ACTIVE;
        else if (was == ACTIVE)
            CHECK(result == PCAP_ERROR_ACTIVATED);
        else
            CHECK(result < 0);
        break;
    case 5:
        result = pcap_set_snaplen(p, odd_number());
        CHECK(was == CREATED ? result == 0 : result < 0);
        break;
    case 6: pcap_set_promisc(p, odd_number()); break;
    case 7: pcap_set_immediate_mode(p, odd_number()); break;
    case 8:
        /* Larger ones are lawful and take the memory of the machine. */
        result = odd_number();
        pcap_set_buffer_size(p, result > 1 << 20 ? 1 << 20 : result);
        break;
    case 9: pcap_set_tstamp_type(p, odd_number()); break;
    case 10: pcap_set_tstamp_precision(p, odd_number()); break;
    case 11:
        result = pcap_setnonblock(p, 1, errbuf);
        if (result == 0)
            slots[slot].nonblocking = 1;
        CHECK(was != NOTHING || result < 0);
        break;
    case 12: pcap_getnonblock(p, errbuf); break;
    case 13:
    case 14:
        /* A blocking call is made only where something ends it. */
        if (was == ACTIVE && !slots[slot].nonblocking)
            pcap_breakloop(p);
        result = pcap_dispatch(p, odd_number(), nothing, (u_char *)p);
        CHECK(was != NOTHING || result == PCAP_ERROR);
        CHECK(was != CREATED || result == PCAP_ERROR_NOT_ACTIVATED);
        break;
    case 15:
        /* pcap_loop(3PCAP) is not for these: the system's spins. */
        if (was == ACTIVE && slots[slot].nonblocking)
            break;
        if (was == ACTIVE)
            pcap_breakloop(p);
        pcap_loop(p, was == FIXED ? 3 : -1, nothing, (u_char *)p);
        break;
    case 16:
    case 17:
        if (was == ACTIVE && !slots[slot].nonblocking)
            pcap_breakloop(p);
        result = pcap_next_ex(p, &header, &data);
        CHECK(was != NOTHING || result == PCAP_ERROR);
        if (result == 1)
            nothing((u_char *)p, header, data);
        break;
    case 18:
        if (was == ACTIVE && !slots[slot].nonblocking)
            pcap_breakloop(p);
        data = pcap_next(p, &own);
        CHECK(was == ACTIVE || was == FIXED || !data);
        break;
    case 19:
        if (pcap_compile(p, &program, any_below(2) ? "udp or vlan 5" : "inbound and ((", 1, 0) == 0) {
            pcap_setfilter(p, &program);
            pcap_freecode(&program);
        }
        break;
    case 20: {
        struct bpf_insn instructions[3];
        for (unsigned i = 0; i < sizeof instructions; i++)
            ((unsigned char *)instructions)[i] = (unsigned char)any_below(256);
        program.bf_len = any_below(4);
        program.bf_insns = any_below(4) ? instructions : NULL;
        pcap_setfilter(p, &program);
        break;
    }
    case 21:
        if (was != FIXED)
            CHECK(pcap_setfilter(p, NULL) < 0);
        break;
    case 22: pcap_setdirection(p, (pcap_direction_t)odd_number()); break;
    case 23:
        if (was != FIXED || pcap_file(p)) {
            memset(&stat, 0, sizeof stat);
            result = pcap_stats(p, &stat);
            CHECK(was == ACTIVE || result < 0);
        }
        break;
    case 24: pcap_inject(p, frame, any_below(61)); break;
    case 25: pcap_sendpacket(p, frame, any_below(2) ? (int)sizeof frame : -1); break;
    case 26:
        result = pcap_list_datalinks(p, &list);
        if (result > 0)
            pcap_free_datalinks(list);
        break;
    case 27: pcap_set_datalink(p, odd_number()); break;
    case 28:
        result = pcap_list_tstamp_types(p, &list);
        if (result > 0)
            pcap_free_tstamp_types(list);
        break;
    case 29: pcap_breakloop(p); break;
    case 30:
        CHECK(p || pcap_fileno(p) < 0);
        pcap_fileno(p);
        pcap_get_selectable_fd(p);
        pcap_get_required_select_timeout(p);
        break;
    case 31:
        pcap_datalink(p);
        pcap_datalink_ext(p);
        pcap_snapshot(p);
        pcap_bufsize(p);
        pcap_is_swapped(p);
        pcap_major_version(p);
        pcap_minor_version(p);
        pcap_get_tstamp_precision(p);
        CHECK(pcap_geterr(p) != NULL);
        break;
    case 32: {
        pcap_dumper_t *dumper = pcap_dump_open(p, "/dev/null");
        if (dumper) {
            own = (struct pcap_pkthdr){.caplen = sizeof frame, .len = sizeof frame};
            pcap_dump((u_char *)dumper, &own, frame);
            pcap_dump_close(dumper);
        }
        break;
    }
    default:
        pcap_can_set_rfmon(p);
        pcap_set_rfmon(p, any_below(8) == 0);
        pcap_set_protocol_linux(p, any_below(4) ? 0 : odd_number());
        pcap_set_timeout(p, 1);
    }
}

int main(int count, char **arguments)
{
    if (count != 6) {
        fprintf(stderr, "usage: odd SEED CALLS CAPTURED PEER FILE\n");
        return 2;
    }
    state = strtoull(arguments[1], NULL, 10) * 0x9e3779b97f4a7c15ULL + 1;
    long calls = atol(arguments[2]);
    captured = arguments[3];
    file = arguments[5];
    char errbuf[PCAP_ERRBUF_SIZE];
    pcap_t *peer = pcap_open_live(arguments[4], 96, 0, 1, errbuf);
    CHECK(peer != NULL);
    pcap_list_datalinks(NULL, NULL);
    int before = descriptors();
    for (step = 0; step < calls; step++) {
        /* A call that blocks ends the test. */
        if (step % 64 == 0) {
            alarm(60);
            u_char frame[60] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 6};
            for (int i = 0; i < 4; i++)
                pcap_inject(peer, frame, sizeof frame);
        }
        one_call((int)any_below(SLOTS));
    }
    for (int slot = 0; slot < SLOTS; slot++)
        pcap_close(slots[slot].p);
    int after = descriptors();
    if (after != before) {
        fprintf(stderr, "%d descriptors before, %d after\n", before, after);
        return 1;
    }
    pcap_close(peer);
    return 0;
}
