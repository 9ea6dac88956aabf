/* What a client is given: filters, lengths, time stamps, tags, directions. */
#define _GNU_SOURCE
#include "cases.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"

void case_setfilter(void)
{
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    send_frames(5, 100, 1000, -1);
    usleep(50000);
    filter(p, "udp port 2000");
    send_frames(6, 100, 2000, -1);
    send_frames(5, 100, 1000, -1);
    see_all(p, &seen, 6);
    CHECK(is_silent(p, &seen), "only what the filter takes");
    struct bpf_insn bad = {.code = 0xffff};
    struct bpf_program bogus = {.bf_len = 1, .bf_insns = &bad};
    if (ours) /* The system's library trusts the program and asks the kernel alone. */
        CHECK(pcap_setfilter(p, &bogus) == PCAP_ERROR && strlen(pcap_geterr(p)) > 0, "a bogus program");
    struct bpf_program never;
    CHECK(pcap_compile(p, &never, "udp port", 1, 0) == PCAP_ERROR && strlen(pcap_geterr(p)) > 0, "bad words");
    pcap_close(p);
}

void case_snaplen(void)
{
    pcap_t *p = create();
    CHECK(pcap_set_snaplen(p, 60) == 0, "%s", pcap_geterr(p));
    activate(p);
    filter(p, "udp or vlan");
    CHECK(pcap_snapshot(p) == 60, "%d", pcap_snapshot(p));
    struct seen seen = {.p = p};
    send_frames(1, 1000, 1000, -1);
    see_all(p, &seen, 1);
    CHECK(seen.header.caplen == 60 && seen.header.len == 1000, "%u of %u", seen.header.caplen, seen.header.len);
    send_frames(1, 500, 1000, 7);
    see_all(p, &seen, 2);
    CHECK(seen.header.caplen == 60 && seen.header.len == 500, "tagged: %u of %u", seen.header.caplen, seen.header.len);
    pcap_close(p);
}

void case_stamps(void)
{
    for (int precision = PCAP_TSTAMP_PRECISION_MICRO; precision <= PCAP_TSTAMP_PRECISION_NANO; precision++) {
        pcap_t *p = create();
        int *types, count = pcap_list_tstamp_types(p, &types);
        CHECK(count >= 0, "types");
        pcap_free_tstamp_types(types);
        CHECK(pcap_set_tstamp_type(p, PCAP_TSTAMP_HOST) >= 0, "host");
        CHECK(pcap_set_tstamp_precision(p, precision) == 0, "precision");
        activate(p);
        CHECK(pcap_get_tstamp_precision(p) == precision, "%d", pcap_get_tstamp_precision(p));
        struct seen seen = {.p = p};
        struct timespec before, after;
        clock_gettime(CLOCK_REALTIME, &before);
        send_frames(3, 100, 1000, -1);
        see_all(p, &seen, 3);
        clock_gettime(CLOCK_REALTIME, &after);
        double unit = precision == PCAP_TSTAMP_PRECISION_NANO ? 1e-9 : 1e-6;
        double stamp = seen.header.ts.tv_sec + seen.header.ts.tv_usec * unit;
        CHECK(seen.header.ts.tv_usec * unit < 1.0, "fraction %ld", (long)seen.header.ts.tv_usec);
        CHECK(stamp > before.tv_sec + before.tv_nsec / 1e9 - 0.01 && stamp < after.tv_sec + after.tv_nsec / 1e9 + 0.01, "%f", stamp);
        pcap_close(p);
    }
}

/* What is offered can be had, is offered afterwards too, and what is not offered is answered as libpcap does. */
void case_stamp_types(void)
{
    int *offered, *after;
    pcap_t *p = create();
    int count = pcap_list_tstamp_types(p, &offered);
    CHECK(count >= 0, "%d", count);
    int has_adapter = 0;
    for (int i = 0; i < count; i++)
        has_adapter |= offered[i] == PCAP_TSTAMP_ADAPTER;
    CHECK(has_adapter || pcap_set_tstamp_type(p, PCAP_TSTAMP_ADAPTER) == PCAP_WARNING_TSTAMP_TYPE_NOTSUP, "adapter");
    CHECK(pcap_set_tstamp_type(p, 77) == PCAP_WARNING_TSTAMP_TYPE_NOTSUP, "no such type");
    CHECK(pcap_set_tstamp_precision(p, 77) == PCAP_ERROR_TSTAMP_PRECISION_NOTSUP, "no such precision");
    pcap_close(p);
    for (int i = 0; i < count; i++) {
        p = create();
        CHECK(pcap_set_tstamp_type(p, offered[i]) == 0, "type %d", offered[i]);
        struct seen seen = {.p = activate(p)};
        int still = pcap_list_tstamp_types(p, &after);
        CHECK(still == count && memcmp(offered, after, count * sizeof *after) == 0, "%d types, then %d", count, still);
        pcap_free_tstamp_types(after);
        double before = time(NULL);
        send_frames(1, 100, 1000, -1);
        see_all(p, &seen, 1);
        double difference = seen.header.ts.tv_sec - before;
        CHECK(difference > -2 && difference < 5, "type %d: %f s", offered[i], difference);
        pcap_close(p);
    }
    if (count > 0)
        pcap_free_tstamp_types(offered);
}

void case_vlan(void)
{
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    unsigned char expected[200];
    send_frames(1, 200, 1000, 5);
    see_all(p, &seen, 1);
    frame(expected, 200, 1000, 5, 0);
    CHECK(seen.header.caplen == 200 && seen.header.len == 200, "%u of %u", seen.header.caplen, seen.header.len);
    CHECK(memcmp(seen.data, expected, 200) == 0, "the tag is in its place");
    filter(p, "vlan 6 and udp port 1000");
    send_frames(2, 200, 1000, 5);
    send_frames(3, 200, 1000, 6);
    send_frames(4, 200, 1000, -1);
    see_all(p, &seen, 4);
    CHECK(is_silent(p, &seen), "vlan 6 only");
    /* What does not speak of tags does not see them. */
    filter(p, "udp port 1000");
    send_frames(2, 200, 1000, 6);
    send_frames(3, 200, 1000, -1);
    see_all(p, &seen, 9);
    pcap_close(p);
}

void case_direction(void)
{
    static const struct {
        pcap_direction_t direction;
        unsigned in, out;
    } kinds[] = {{PCAP_D_INOUT, 1, 1}, {PCAP_D_IN, 1, 0}, {PCAP_D_OUT, 0, 1}};
    for (int i = 0; i < 3; i++) {
        pcap_t *p = activate(create());
        struct seen seen = {.p = p};
        CHECK(pcap_setdirection(p, kinds[i].direction) == 0, "%s", pcap_geterr(p));
        send_frames(4, 100, 1000, -1);
        int fd = raw_socket(captured, 0);
        send_on(fd, 3, 100, 2000, -1);
        close(fd);
        see_all(p, &seen, 4 * kinds[i].in + 3 * kinds[i].out);
        CHECK(is_silent(p, &seen), "direction %d: one too many", i);
        pcap_close(p);
    }
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    filter(p, "udp and outbound");
    send_frames(4, 100, 1000, -1);
    int fd = raw_socket(captured, 0);
    send_on(fd, 3, 100, 2000, -1);
    close(fd);
    see_all(p, &seen, 3);
    filter(p, "udp and inbound");
    send_frames(2, 100, 1000, -1);
    see_all(p, &seen, 5);
    pcap_close(p);
}

/* A packet as GRO makes them, larger than any frame of a ring: an interface with a large MTU stands for it. */
void case_oversize(void)
{
    static const int vlans[] = {-1, 9, -1, 9};
    static unsigned char big[60000];
    pcap_t *p = activate(create());
    int fd = raw_socket(peer, 0);
    for (int i = 0; i < 4; i++) {
        int len = frame(big, 50000, 1000, vlans[i], i);
        memset(big + 100, 0x5a + i, len - 100);
        CHECK(send(fd, big, len, 0) == len, "%s", strerror(errno));
        send_on(fd, 1, 100, 1000, -1);
    }
    struct pcap_pkthdr *header;
    const u_char *data;
    for (int i = 0; i < 4; i++) {
        CHECK(pcap_next_ex(p, &header, &data) == 1, "%s", pcap_geterr(p));
        frame(big, 50000, 1000, vlans[i], i);
        memset(big + 100, 0x5a + i, 50000 - 100);
        CHECK(header->caplen == 50000 && header->len == 50000, "%u of %u", header->caplen, header->len);
        CHECK(memcmp(data, big, 50000) == 0, "whole, with its tag (%d)", i);
        CHECK(pcap_next_ex(p, &header, &data) == 1 && header->caplen == 100, "%u in its place", header->caplen);
    }
    close(fd);
    pcap_close(p);
}
