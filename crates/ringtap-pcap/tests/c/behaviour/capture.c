#define _GNU_SOURCE
#include "capture.h"

#include <string.h>
#include <unistd.h>

const char *captured, *peer;
int ours;

void send_frames(int count, int size, int port, int vlan)
{
    int fd = raw_socket(peer, 0);
    send_on(fd, count, size, port, vlan);
    close(fd);
}

pcap_t *create(void)
{
    char errbuf[PCAP_ERRBUF_SIZE] = "";
    pcap_t *p = pcap_create(captured, errbuf);
    CHECK(p, "%s", errbuf);
    CHECK(pcap_set_promisc(p, 1) == 0 && pcap_set_timeout(p, 200) == 0, "options");
    CHECK(pcap_set_immediate_mode(p, 1) == 0, "immediate mode");
    return p;
}

void filter(pcap_t *p, const char *text)
{
    struct bpf_program program;
    CHECK(pcap_compile(p, &program, text, 1, PCAP_NETMASK_UNKNOWN) == 0, "%s", pcap_geterr(p));
    CHECK(pcap_setfilter(p, &program) == 0, "%s", pcap_geterr(p));
    pcap_freecode(&program);
}

pcap_t *activate(pcap_t *p)
{
    int status = pcap_activate(p);
    CHECK(status == 0, "pcap_activate: %d %s", status, pcap_geterr(p));
    filter(p, "udp or (vlan and udp)");
    return p;
}

void see(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
    struct seen *seen = (struct seen *)user;
    unsigned number = 0;
    seen->count++;
    seen->header = *header;
    memcpy(seen->data, data, header->caplen < sizeof seen->data ? header->caplen : sizeof seen->data);
    if (header->caplen >= 46) {
        memcpy(&number, data + 42, 4);
        seen->reordered += seen->count > 1 && number != seen->last_number + 1;
        seen->last_number = number;
    }
    if (seen->break_at && seen->count == seen->break_at)
        pcap_breakloop(seen->p);
}

void see_all(pcap_t *p, struct seen *seen, unsigned count)
{
    for (int i = 0; i < 1000 && seen->count < count; i++) {
        int got = pcap_dispatch(p, -1, see, (u_char *)seen);
        CHECK(got >= 0, "pcap_dispatch: %d %s", got, pcap_geterr(p));
        if (got == 0)
            usleep(1000);
    }
    CHECK(seen->count == count, "%u of %u packets", seen->count, count);
}

int is_silent(pcap_t *p, struct seen *seen)
{
    char errbuf[PCAP_ERRBUF_SIZE];
    usleep(50000);
    CHECK(pcap_setnonblock(p, 1, errbuf) == 0, "%s", errbuf);
    int got = pcap_dispatch(p, -1, see, (u_char *)seen);
    CHECK(pcap_setnonblock(p, 0, errbuf) == 0, "%s", errbuf);
    return got == 0;
}
